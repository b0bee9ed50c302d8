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
    ($module:ident: $argument:ident $($name:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $name() {
            tests! { @ $module::$name, $argument }
        }
    )*};
    (#[$attribute:meta] $module:ident: $argument:ident $($name:ident),* $(,)?) => {$(
        #[$attribute]
        #[tokio::test]
        async fn $name() {
            tests! { @ $module::$name, $argument }
        }
    )*};
    (@ $test:path, registry) => { $test(KIND.registry().await).await };
    (@ $test:path, kind) => { $test(KIND).await };
}

/// A module of tests for one kind of database.
macro_rules! contract {
    ($(
        $module:ident: $kind:expr
            $(, concurrent: #[$concurrent_ignored:meta])? $(, ids: #[$ids_ignored:meta])?
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
                actions_are_kept_when_the_key_of_a_method_changes_or_an_alias_is_removed,
                methods_with_the_same_function_cannot_lower_each_others_masks,
                concurrent_changes_of_a_method_are_merged_and_those_of_an_upstream_conflict,
                existing_and_missing_names_are_errors_and_nothing_changes,
                grants_of_users_and_roles_determine_access,
                tokens_are_found_by_digest_until_they_are_revoked_and_secrets_are_not_stored,
                each_change_increments_its_counters_and_a_token_use_increments_none,
                uses_of_many_tokens_take_few_statements_and_never_become_earlier,
                presets_insert_only_missing_settings,
                leases_count_the_running_servers,
                existing_tool_names_and_sections_are_not_overwritten,
                the_built_in_section_needs_no_row,
                an_import_writes_everything_or_nothing,
                an_import_of_many_methods_takes_few_statements_and_loses_none,
                a_credential_belongs_to_one_user_at_one_upstream,
                a_credential_is_replaced_only_if_it_equals_the_old_value,
                an_upstream_is_written_read_and_removed_by_name,
                an_import_of_access_adds_its_rows_unless_access_has_changed,
            }
            tests! { values: registry
                each_column_of_a_method_keeps_its_text,
                null_and_empty_text_are_distinct,
                names_that_differ_in_case_or_accents_are_distinct,
                actions_in_any_case_are_removed_with_the_last_method_of_their_key,
                names_may_have_255_characters,
                times_are_stored_to_the_second_in_any_time_zone,
                a_duplicate_token_is_refused_and_changes_nothing,
            }
            tests! { $(#[$concurrent_ignored])? several: registry
                concurrent_writers_lose_no_rows,
                concurrent_imports_from_outdated_rows_are_refused,
                concurrent_messages_and_session_changes_get_distinct_numbers,
            }
            tests! { several: kind
                aborted_transactions_are_rolled_back_and_release_their_connections,
            }
            tests! { $(#[$concurrent_ignored])? gateways: registry
                only_one_of_several_concurrent_servers_adds_a_key,
                concurrent_changes_of_a_session_are_all_stored,
            }
            tests! { $(#[$ids_ignored])? copy: kind
                ids_of_deleted_rows_are_not_reused_in_a_copy_to_the_database,
            }
            tests! { $(#[$concurrent_ignored])? migrations: kind
                migrations_are_applied_once_by_four_concurrent_programs,
            }
            tests! { several: registry
                messages_are_read_in_parts_of_100,
                tokens_are_found_by_many_digests,
                keys_become_active_after_their_delay_and_old_keys_can_be_removed,
            }
            tests! { scale: registry
                a_large_catalog_is_read_completely,
                many_users_are_read_at_once_and_tokens_are_looked_up_by_digest,
            }
            tests! { gateways: registry
                a_key_is_added_only_if_there_is_none_or_the_newest_is_old_enough,
                sessions_are_read_in_the_order_of_their_changes,
                messages_are_read_in_order_and_deleted_by_age,
            }
            tests! { plain_sql: kind
                inserts_written_for_festi_work_unchanged,
                settings_can_be_changed_with_plain_sql,
                plain_sql_on_each_table_increments_its_counters,
            }
            tests! { constraints: kind
                unique_constraints_refuse_duplicate_rows,
                required_columns_refuse_null,
                check_constraints_refuse_invalid_values_where_they_exist,
            }
            tests! { copy: kind
                a_registry_is_unchanged_after_a_copy_and_a_copy_back,
                a_target_with_other_rows_is_not_changed,
                ids_of_deleted_rows_are_not_reused_in_a_copy_from_the_database,
                an_interrupted_copy_leaves_an_empty_target_and_can_be_repeated,
                a_copy_that_differs_from_its_source_is_rolled_back,
                a_copy_is_rolled_back_if_its_source_changes_and_can_be_repeated,
                values_that_the_target_cannot_store_are_reported_before_the_first_write,
            }
            tests! { festi: kind
                inserts_written_for_festi_change_access_in_an_attached_database,
                changes_in_an_attached_database_increment_the_counters,
                token_changes_are_followed_in_a_festi_database_with_many_users,
                a_festi_database_is_read_for_an_import,
            }
            tests! { migrations: kind
                a_registry_stores_its_table_names_and_refuses_others,
                missing_and_newer_registries_are_different_errors,
                a_registry_of_an_earlier_build_is_refused,
                a_database_with_an_unrelated_table_of_the_same_name_is_refused,
                pending_migrations_are_reported_and_not_applied,
                the_install_script_creates_a_registry,
                the_install_file_and_the_migrations_create_the_same_schema,
            }
        }
    )*};
}

contract! {
    on_sqlite: Kind::Sqlite;
    on_postgres: Kind::Postgres;
    on_mariadb: Kind::MariaDb;
    // This is the SQL Server emulator. Its other limitations are in `TestDatabase::scale` and in `emulator.rs`.
    on_sql_server: Kind::SqlServer,
        concurrent: #[ignore = "the emulator loses one of two concurrent transactions"],
        ids: #[ignore = "the ids of the emulator do not continue after an explicit id"];
}
