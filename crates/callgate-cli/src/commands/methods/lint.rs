//! `callgate lint`

mod orphans;
mod report;

use anyhow::Result;
use callgate::gateway::{SettingError, Settings};
use callgate::lint::{ClientProfile, Level, LintOptions, Problem};
use callgate::model::LOCAL;
use callgate_import::counted;
use callgate_registry::{
    Assembly, CatalogRows, Store as _, assemble, open_entries, open_methods, settings,
};

use crate::cli::LintArgs;
use crate::commands::{assembly, caller_named};
use crate::config::Config;
use crate::registry;

pub(crate) async fn run(config: &Config, lint: &LintArgs) -> Result<()> {
    let store = registry::open(config).await?;
    let mut rows = store.catalog_rows().await?;
    let access_rows = store.access_rows().await?;
    let total = rows.methods.len();
    rows.methods.retain(|row| row.upstream_name() != LOCAL);
    let code_methods = total - rows.methods.len();
    let (settings, invalid_settings) = settings(&rows.settings, &Settings::default());
    let assembly = Assembly { prefix: settings.tools_prefix.clone(), ..assembly(config) };
    let catalog = assemble(&rows, assembly).catalog;
    let caller = lint.user.as_deref().map(|name| caller_named(&access_rows, name)).transpose()?;
    let options = LintOptions {
        profiles: profiles(lint),
        server_name: lint.server_name.as_deref().unwrap_or(&settings.server_name),
        grants: caller.as_ref().map(|caller| &*caller.grants),
        page_size: settings.page_size as usize,
        param_styles: config.upstreams.param_styles(&rows.upstreams),
    };
    let mut report = callgate::lint::lint(&catalog, &options);
    if open_methods(&rows, config.open_methods).is_none() {
        report
            .problems
            .extend(open_entries(&catalog).map(|entry| open_method_problem(entry.id().as_str())));
    }
    if caller.is_none() {
        let orphans = orphans::find(config, &rows, &access_rows, &store.tokens().await?);
        report.problems.extend(registry_problems(
            (config, &rows),
            orphans,
            &invalid_settings,
            code_methods,
        ));
    }
    report::print(&report, lint);
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    if errors > 0 {
        anyhow::bail!("found {}", counted(errors, "error"));
    }
    if lint.strict && warnings > 0 {
        anyhow::bail!("found {}, which `--strict` does not allow", counted(warnings, "warning"));
    }
    Ok(())
}

fn profiles(lint: &LintArgs) -> Vec<&'static ClientProfile> {
    if lint.clients.is_empty() { ClientProfile::ALL.iter().collect() } else { lint.clients.clone() }
}

fn problem(method: Option<&str>, level: Level, code: &'static str, message: String) -> Problem {
    Problem { method: method.map(ToOwned::to_owned), level, code, clients: Vec::new(), message }
}

fn open_method_problem(id: &str) -> Problem {
    let message = "no section, so every caller may call the method, even without a token; add a section, or set `open_methods`";
    problem(Some(id), Level::Warning, "open-method", message.to_owned())
}

/// Returns problems that do not concern a single tool.
fn registry_problems(
    (config, rows): (&Config, &CatalogRows),
    orphans: Vec<String>,
    invalid_settings: &[SettingError],
    code_methods: usize,
) -> Vec<Problem> {
    let general = |level, code, message| problem(None, level, code, message);
    let invalid_settings = invalid_settings.iter();
    let mut problems: Vec<Problem> = invalid_settings
        .map(|error| general(Level::Warning, "setting", error.to_string()))
        .collect();
    let quarantined = rows.upstreams.iter().filter_map(|row| {
        let reason = config.upstreams.check_row(row).err()?;
        let message = format!("upstream `{}` is quarantined: {reason:#}", row.name.escape_debug());
        Some(general(Level::Warning, "quarantined-upstream", message))
    });
    problems.extend(quarantined);
    problems.extend(orphans.into_iter().map(|message| general(Level::Note, "orphan", message)));
    if code_methods > 0 {
        let methods = counted(code_methods, "method");
        let message = format!("not checked: {methods} that the code of the server defines");
        problems.push(general(Level::Note, "code", message));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use callgate::lint::ClientProfile;

    use crate::config::tests::check_reference;

    #[test]
    fn the_reference_of_clients_is_up_to_date() {
        let mut text = String::from(
            "# Clients\n\nGenerated from the program; do not edit. `callgate lint --client NAME` reports the problems \
             that this page lists for the client NAME. The last column names GitHub issues about each problem. \
             [lint.md](../guide/lint.md) explains the checks.\n",
        );
        for profile in ClientProfile::ALL {
            writeln!(text, "\n## `{}`\n\nFor {}.", profile.name, profile.title).unwrap();
            text.push_str(if profile.rules.is_empty() {
                "\nThis client has no rules of its own. Only the rules for all clients apply.\n"
            } else {
                "\n| problem | level | seen in |\n| --- | --- | --- |\n"
            });
            for rule in profile.rules {
                writeln!(text, "| {} | {} | {} |", rule.check, rule.level, rule.seen).unwrap();
            }
        }
        check_reference("clients.md", &text);
    }
}
