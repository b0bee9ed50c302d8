//! `callgate lint`

use callgate::lint::Profile;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Only for this client, beside what holds for all; may repeat. By default for all of them
    #[arg(long = "client", value_name = "NAME", value_parser = client_profile())]
    pub(crate) clients: Vec<&'static Profile>,
    /// Only the tools that this user may use
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// What clients call this server; by default the setting `mcp_server_name`
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Also fail where there are warnings
    #[arg(long)]
    pub(crate) strict: bool,
    /// Show everything; by default what is found often is folded
    #[arg(long)]
    pub(crate) all: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The profiles of clients, by name.
fn client_profile() -> impl TypedValueParser<Value = &'static Profile> {
    let values =
        Profile::ALL.iter().map(|profile| PossibleValue::new(profile.name).help(profile.title));
    let missing = "a possible value is a profile's name";
    PossibleValuesParser::new(values).try_map(move |name| Profile::named(&name).ok_or(missing))
}
