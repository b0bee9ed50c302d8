//! Names and descriptions of real services.

use super::*;

/// Methods that only read, with their descriptions.
const READ_ONLY_METHODS: &[(&str, &str)] = &[
    ("user.get", ""),
    ("listOrders", ""),
    ("order.list", ""),
    ("get_users", ""),
    ("store/find_book", ""),
    ("chain.head", "Read-only."),
    ("balance", "Computes the balance, and does not change anything."),
    ("setting.get", "Gets a setting."),
    // Ethereum
    ("eth_call", "Executes a new message call immediately without creating a transaction."),
    ("eth_getBlockByHash", "Returns information about a block by hash."),
    (
        "eth_getProof",
        "Returns the merkle proof for a given account and optionally some storage keys.",
    ),
    // Filecoin
    (
        "Filecoin.ChainGetBlock",
        "There are not yet any comments for this method.\n\n```go\nfunc send() {}\n```",
    ),
    ("Filecoin.ChainHasObj", ""),
    (
        "Filecoin.ChainGetTipSet",
        "ChainGetTipSet returns the set of blocks specified by the given TipSetKey.",
    ),
    ("Filecoin.StateGetClaims", "StateGetClaims returns the all the claims for a given provider."),
    // Starknet
    (
        "starknet_getStateUpdate",
        "Get the information about the result of executing the requested block",
    ),
    ("starknet_getTransactionByHash", "Get the details and status of a submitted transaction"),
    // Sui
    (
        "suix_getAllBalances",
        "Return the total coin balance for all coin type, owned by the address owner.",
    ),
    ("sui_getObject", "Return the object information for a specified object"),
    // Zabbix, Deluge, aria2, Kodi
    ("trigger.get", ""),
    ("core.get_torrents_status", "Returns all torrents, optionally filtered by filter_dict."),
    ("aria2.getGlobalStat", ""),
    ("JSONRPC.GetConfiguration", "Get client-specific configurations"),
    ("PVR.GetRecordings", "Retrieves the recordings"),
];

/// Methods that change data, or may change data.
const CHANGING_METHODS: &[(&str, &str)] = &[
    ("user.delete", ""),
    ("getOrCreateUser", ""),
    ("cache.getAndClear", ""),
    ("list.add", ""),
    ("setList", ""),
    ("redis.getSet", ""),
    ("list_item_add", ""),
    ("token.get", "Creates a token."),
    ("user.get", "*Deletes* what it gives"),
    ("job.get", "Returns the next job and locks it for this worker."),
    ("queue.fetch", "Returns a message. It is removed from the queue."),
    ("address.get", "Returns an address. If there is none, one will be created."),
    ("address.find", "Finds an address; if not, creates one."),
    ("session.get", "Gets the session, copying it from the parent."),
    ("invoice.get", "Generates the invoice and returns it."),
    ("inbox.list", "Lists the messages, marking them as seen."),
    // Filecoin: the comment begins with the name of the method.
    ("Filecoin.PaychGet", "PaychGet gets or creates a payment channel between address pair"),
    ("Filecoin.ClientFindAndRetrieve", "ClientFindAndRetrieve initiates the retrieval of a file"),
    ("Filecoin.F3GetOrRenewParticipationTicket", ""),
    ("Filecoin.WalletNew", "WalletNew creates a new address in the wallet with the given sigType."),
    // Ethereum
    ("eth_sendRawTransaction", ""),
    ("eth_newFilter", ""),
    (
        "eth_getFilterChanges",
        "Polling method for the filter with the given ID. Returns logs since last poll.",
    ),
    ("engine_forkchoiceUpdatedV1", "Updates the forkchoice state"),
    // Starknet, Sui
    ("wallet_addInvokeTransaction", ""),
    ("wallet_watchAsset", "Add a token in the list of assets displayed by the wallet"),
    ("unsafe_transferSui", "Send SUI coin object to a Sui address."),
    ("sui_executeTransactionBlock", ""),
    // Bitcoin
    ("GetRawChangeAddress", "Returns a new Bitcoin address, for receiving change."),
    ("getNewAddress", "Returns a new Bitcoin address for receiving payments."),
    // Zabbix, Deluge, aria2
    ("user.login", ""),
    ("core.set_config", ""),
    ("core.pause_torrent", "Pauses a torrent"),
    ("aria2.addUri", ""),
    ("aria2.changeGlobalOption", ""),
    ("Addons.ExecuteAddon", "Executes the given addon with the given parameters (if possible)"),
];

/// Methods whose names and descriptions are not clear.
const UNCLEAR_METHODS: &[(&str, &str)] = &[
    ("list.frobnicate", "Returns a value."),
    ("rotateList2", "Returns a value."),
    ("counter.next", "Returns the next value."),
    ("counter.next", "Is not read-only."),
    ("rpc", ""),
    ("", ""),
    ("db.query", ""),
    (
        "testing_buildBlock",
        "Builds a block. For tests. With parameters. Does not change the chain.",
    ),
    ("EthBlockNumber", ""),
    // Displays a message on the screen.
    ("GUI.ShowNotification", ""),
    ("Input.ShowOSD", "Show the on-screen display for the current player"),
    // Marks messages as read.
    ("subscriptions.read", ""),
    // Pays for the retrieval of a file.
    ("Filecoin.ClientRetrieve", ""),
    // Bitcoin, whose names do not separate words.
    ("getnewaddress", ""),
];

#[test]
fn methods_that_only_read_are_guessed_read_only() {
    for (id, description) in READ_ONLY_METHODS {
        assert_eq!(guess(id, description), Some(Safety::ReadOnly), "{id}: {description}");
    }
}

#[test]
fn a_method_with_one_verb_of_change_is_guessed_destructive() {
    for (id, description) in CHANGING_METHODS {
        assert_eq!(guess(id, description), Some(Safety::Destructive), "{id}: {description}");
    }
}

#[test]
fn unclear_methods_are_not_guessed_read_only() {
    for (id, description) in UNCLEAR_METHODS {
        assert_ne!(guess(id, description), Some(Safety::ReadOnly), "{id}: {description}");
    }
    assert_eq!(guess("counter.next", "Returns the next value."), None);
}

#[test]
fn verbs_of_change_are_recognised_in_all_forms() {
    for verb in [
        "create",
        "creates",
        "created",
        "creating",
        "copies",
        "copied",
        "submitted",
        "stopping",
        "modifies",
        "applying",
        "pushes",
        "sent",
        "sends",
        "written",
    ] {
        assert!(form_in(CHANGING, verb).is_some(), "{verb}");
    }
    for word in ["creature", "sets_", "s", "es", "ing", "ed", "", "é", "address", "listing"] {
        assert_eq!(form_in(CHANGING, word), None, "{word}");
    }
}
