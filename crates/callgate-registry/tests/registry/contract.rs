//! Behaviour that every kind of database must have.
//!
//! A test is a function that takes a registry. If the test needs several databases or an empty one, the function takes
//! a kind of database instead. The lists below create a test for each kind of database.

mod constraints;
pub(crate) mod copy;
mod festi;
mod gateways;
mod migrations;
mod operations;
mod plain_sql;
mod scale;
mod several;
mod values;

pub(crate) use plain_sql::catalog;

macro_rules! tests {
    ($module:ident: $of:ident $($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            tests! { @ $module::$name, $of }
        }
    )*};
    (#[$ignored:meta] $module:ident: $of:ident $($name:ident),* $(,)?) => {$(
        #[$ignored]
        #[tokio::test]
        async fn $name() {
            tests! { @ $module::$name, $of }
        }
    )*};
    (@ $test:path, registry) => { $test(KIND.registry().await).await };
    (@ $test:path, kind) => { $test(KIND).await };
}

/// A module of tests for one kind of database.
macro_rules! contract {
    ($(
        $module:ident: $kind:expr
            $(, at_once: #[$alone:meta])? $(, numbers: #[$uncounted:meta])?
    );* $(;)?) => {$(
        mod $module {
            use super::{
                constraints, copy, festi, gateways, migrations, operations, plain_sql, scale, several,
                values,
            };
            use crate::databases::Kind;

            const KIND: Kind = $kind;

            tests! { operations: registry
                a_method_is_added_changed_and_removed_with_its_actions,
                what_protects_a_method_stays_when_its_key_changes_or_a_namesake_goes,
                methods_of_one_function_do_not_weaken_each_other,
                what_another_administrator_changed_meanwhile_is_not_lost,
                names_that_are_taken_and_things_that_are_missing_are_errors_that_change_nothing,
                grants_of_users_and_roles_become_access,
                tokens_are_found_until_they_end_or_are_revoked,
                every_change_raises_its_revision_and_the_use_of_a_token_raises_none,
                uses_of_many_tokens_are_noted_at_once_and_never_backwards,
                presets_insert_what_is_absent,
                leases_count_the_servers_that_run,
                names_and_sections_are_written_once,
                the_built_in_section_needs_no_row,
                an_import_writes_all_of_it_or_nothing,
                an_import_of_many_methods_takes_few_statements_and_loses_none,
                a_users_credential_is_theirs_at_one_upstream,
                a_credential_is_replaced_only_if_it_is_still_the_old_one,
                an_upstream_is_written_read_and_removed_by_its_name,
                an_import_of_who_may_do_what_is_for_what_is_not_there,
            }
            tests! { values: registry
                each_column_of_a_method_keeps_its_text,
                nothing_and_an_empty_text_are_two_things,
                names_are_told_apart_letter_by_letter,
                actions_of_a_method_in_another_case_go_with_it_and_those_of_others_stay,
                names_have_up_to_255_letters,
                times_are_kept_to_the_second_in_whatever_zone,
                what_must_be_there_once_is_refused_twice,
            }
            tests! { $(#[$alone])? several: registry
                writers_take_turns_and_nothing_is_lost,
                an_import_from_what_is_no_longer_so_is_refused_each_time,
                messages_and_sessions_have_each_a_number_of_their_own,
            }
            tests! { several: kind
                transactions_that_the_database_ended_leave_no_connection_behind,
            }
            tests! { $(#[$alone])? gateways: registry
                of_several_gateways_that_find_the_key_old_one_adds_one,
                changes_of_one_session_by_several_gateways_are_all_kept,
            }
            tests! { $(#[$uncounted])? copy: kind
                what_is_numbered_goes_on_behind_what_was_copied,
            }
            tests! { $(#[$alone])? migrations: kind
                migrations_are_applied_once_also_by_four_at_the_same_time,
            }
            tests! { several: registry
                of_much_a_part_is_read_at_a_time,
                tokens_are_found_by_their_digests,
                keys_come_into_force_later_and_old_ones_go,
            }
            tests! { scale: registry
                a_large_catalog_is_read_whole,
                many_users_are_read_and_many_tokens_are_not,
            }
            tests! { gateways: registry
                the_first_key_stays_the_first_until_it_is_old,
                sessions_are_read_in_the_order_of_their_changes,
                messages_are_read_in_order_and_forgotten,
            }
            tests! { plain_sql: kind
                the_seeds_inserts_work_as_written,
                settings_are_changed_in_the_database,
                plain_sql_on_every_table_raises_a_revision,
            }
            tests! { constraints: kind
                what_is_there_once_is_refused_twice,
                what_must_say_something_is_not_null,
                what_is_checked_is_refused,
            }
            tests! { copy: kind
                a_registry_survives_the_way_there_and_back,
                a_registry_with_other_content_is_not_written_to,
                numbers_that_were_freed_are_not_given_again_after_a_copy,
                a_copy_that_was_interrupted_leaves_an_empty_target_and_runs_again_whole,
                a_copy_that_came_out_different_is_not_kept,
                a_source_that_changes_meanwhile_is_copied_anew,
                what_a_database_cannot_keep_is_told_before_anything_is_written,
            }
            tests! { festi: kind
                the_seeds_inserts_change_what_an_attached_database_says,
                what_changes_in_an_attached_database_raises_a_revision,
                a_site_of_many_users_is_followed,
                a_festi_database_is_read_for_an_import,
            }
            tests! { migrations: kind
                a_registry_knows_the_names_of_its_tables,
                a_missing_and_a_newer_registry_are_told_apart,
                a_registry_of_an_earlier_build_is_refused,
                a_database_with_tables_of_its_own_is_refused,
                what_would_be_applied_is_told_and_not_done,
                the_install_script_makes_a_registry,
                the_install_file_and_migrating_make_the_same,
            }
        }
    )*};
}

contract! {
    on_sqlite: Kind::Sqlite;
    on_postgres: Kind::Postgres;
    on_mariadb: Kind::MariaDb;
    // This is the SQL Server emulator. Its other limitations are in `Place::scale` and in `emulator.rs`.
    on_sql_server: Kind::SqlServer,
        at_once: #[ignore = "the emulator loses one of two concurrent transactions"],
        numbers: #[ignore = "the ids of the emulator do not continue after an explicit id"];
}
