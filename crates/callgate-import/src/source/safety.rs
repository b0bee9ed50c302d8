//! Guesses from a method's name and description whether it changes anything.
//!
//! After a wrong "read-only" a client calls without asking; after a wrong "destructive" it asks once too
//! often. One word of change anywhere is therefore enough for "destructive", while "read-only" needs an
//! unambiguous verb in the place of the verb.

use callgate::model::Safety;
use serde_json::{Map, Value};

/// Verbs of change, without those that are as often nouns (`block`, `order`, `post`).
const CHANGING: &str = "\
    abort accept activate add append apply approve archive assign ban broadcast buy cancel \
    change charge clear clone close commit configure confirm connect copy create deactivate \
    decrement delete deploy destroy disable disconnect drop edit enable enqueue erase exec \
    execute expire fill flush grant import increment init insert install invoke kill lock \
    login logout mark merge migrate mint modify move multicall mutate new open patch pause \
    pay pin pop publish purge push put rebuild refund register reject reload remove rename \
    renew replace reset restart restore resume retry revert revoke rotate run save send set \
    shutdown sign start stop submit subscribe swap switch sync toggle touch transfer trigger \
    truncate unban unblock uninstall unlock unpause unpin unregister unset unsubscribe \
    update upgrade upload upsert wipe withdraw write";

/// Unambiguous verbs, as one of the first two words of a name's last part.
const READING: &str = "describe exists fetch find get has is lookup retrieve";

/// Verbs that are nouns too, as the first word of a name's last part.
const READING_FIRST: &str = "count list read search show view";

/// Well-known methods whose names have no verb.
const KNOWN_TO_READ: &str = "\
    eth_accounts eth_blockNumber eth_call eth_chainId eth_estimateGas eth_feeHistory \
    eth_gasPrice eth_maxPriorityFeePerGas eth_syncing net_listening net_peerCount \
    net_version starknet_blockNumber starknet_call starknet_chainId system.listMethods \
    system.methodHelp system.methodSignature web3_clientVersion";

/// Phrases of a description.
const READ_ONLY_PHRASES: &[&str] =
    &["read-only", "read only", "does not change", "does not modify", "no side effect"];

/// Removes the safety hints from annotations and returns the safety that they declare.
pub(crate) fn declared(annotations: &mut Map<String, Value>) -> Option<Safety> {
    let mut take = |hint: &str| annotations.shift_remove(hint).and_then(|hint| hint.as_bool());
    match (take("readOnlyHint"), take("destructiveHint")) {
        (_, Some(true)) | (Some(false), _) => Some(Safety::Destructive),
        (Some(true), _) => Some(Safety::ReadOnly),
        (None, _) => None,
    }
}

/// Returns a guess, or `None` if neither the name nor the description is clear.
pub(super) fn guess(id: &str, description: &str) -> Option<Safety> {
    if has(KNOWN_TO_READ, id) {
        return Some(Safety::ReadOnly);
    }
    let last = words(id.rsplit(['.', '/', ':']).next().unwrap_or(id));
    let verb = last.iter().take(2).position(|word| has(READING, word));
    let reads = verb.is_some() || last.first().is_some_and(|word| has(READING_FIRST, word));
    let changes = match verb {
        Some(verb) => changes_beside(&last, verb),
        None => words(id).iter().any(|word| has(CHANGING, word)),
    };
    if changes || begins_with_change(description) {
        return Some(Safety::Destructive);
    }
    let description = description.to_lowercase();
    let is_stated = READ_ONLY_PHRASES.iter().any(|words| description.contains(words))
        && !description.contains("not read");
    (reads || is_stated).then_some(Safety::ReadOnly)
}

fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// Returns `true` if a name has a verb of change beside one that reads: `getOrCreate` and `getSet`, but not
/// `getTipSet`.
fn changes_beside(words: &[String], verb: usize) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let is_joined = before.is_some_and(|word| ["and", "or", "then"].contains(&word.as_str()));
        has(CHANGING, word) && (at <= verb + 1 || is_joined)
    })
}

/// Returns `true` for descriptions such as "Deletes a user" or "Create a user".
fn begins_with_change(description: &str) -> bool {
    let first = description.split_whitespace().next().unwrap_or_default().to_lowercase();
    let first = first.trim_matches(|c: char| !c.is_alphanumeric());
    let stems = [
        first,
        first.strip_suffix('s').unwrap_or(first),
        first.strip_suffix("es").unwrap_or(first),
    ];
    stems.iter().any(|stem| has(CHANGING, stem))
}

/// Splits `ChainGetBlock`, `get_block` or `get-block` into words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        let starts = !c.is_alphanumeric() || (c.is_uppercase() && was_small);
        if starts {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_verb_is_guessed_read_only() {
        for id in [
            "user.get",
            "eth_getBlockByHash",
            "Filecoin.ChainGetBlock",
            "Filecoin.ChainHasObj",
            "listOrders",
            "order.list",
            "get_users",
            "store/find_book",
            "eth_call",
            "Filecoin.ChainGetTipSet",
            "starknet_getStateUpdate",
        ] {
            assert_eq!(guess(id, ""), Some(Safety::ReadOnly), "{id}");
        }
        assert_eq!(guess("chain.head", "Read-only."), Some(Safety::ReadOnly));
    }

    #[test]
    fn one_word_of_change_is_guessed_destructive() {
        for id in [
            "user.delete",
            "getOrCreateUser",
            "cache.getAndClear",
            "list.add",
            "eth_sendRawTransaction",
            "eth_newFilter",
            "wallet_addInvokeTransaction",
            "aria2.addUri",
            "setList",
            "redis.getSet",
            "list_item_add",
        ] {
            assert_eq!(guess(id, ""), Some(Safety::Destructive), "{id}");
        }
        assert_eq!(guess("token.get", "Creates a token."), Some(Safety::Destructive));
        assert_eq!(guess("user.get", "*Deletes* what it gives"), Some(Safety::Destructive));
    }

    #[test]
    fn an_unclear_name_is_not_guessed() {
        for id in [
            "list.frobnicate",
            "rotateList2",
            "counter.next",
            "rpc",
            "",
            "widget",
            "db.query",
            "EthBlockNumber",
        ] {
            assert_ne!(guess(id, "Returns a value."), Some(Safety::ReadOnly), "{id}");
        }
        assert_eq!(guess("counter.next", "Returns the next value."), None);
        assert_eq!(guess("counter.next", "Is not read-only."), None);
    }
}
