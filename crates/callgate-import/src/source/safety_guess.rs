//! Guesses from a method's name and description whether calls change data.
//!
//! If "read-only" is wrong, a client runs a change without asking. If "destructive" is wrong, the client only asks
//! needlessly. Therefore a single verb that suggests a change is enough for "destructive", in the name or in the first
//! sentences of the description. "Read-only" needs an unambiguous verb of reading at the position where a name has its
//! verb.

#[cfg(test)]
mod tests;

use callgate::model::Safety;
use serde_json::{Map, Value};

/// Verbs of change, including irregular forms. Words that are equally common as nouns are not included.
const CHANGING: &str = "\
    abandon abort accept acquire activate add allocate append apply approve archive assign attach ban \
    bootstrap bought broadcast buy cancel change charge clear clone close commit compact configure confirm \
    connect consume copy create deactivate decrement delete deploy dequeue destroy detach disable disconnect \
    dismiss dispatch drop edit eject enable encrypt enqueue erase exec execute expire fill flush force grant \
    import increment init initialise initialize initiate insert install invalidate invite invoke join kick \
    kill launch leave lock login logout mark merge migrate mint modify mount move multicall mutate mute new \
    notify open overwrite overwritten paid patch pause pay perform persist pin pop prepare provision prune \
    publish purge push put reboot rebuild redeem refund register reindex reject release reload remove rename \
    renew replace rescan reserve reset restart restore resume retry revert revoke rollback rotate run save \
    send sent set shutdown sign spawn spent start stop submit subscribe suspend swap switch sync terminate \
    toggle touch transfer trigger truncate unban unblock uninstall unlock unmount unmute unpause unpin \
    unregister unset unsubscribe update upgrade upload upsert wipe withdraw withdrawn write written wrote";

/// Verbs of change that are also common nouns. They count only at the position of a verb.
const CHANGING_AS_VERB: &str = "\
    advance book boot claim download forward generate issue link load mine order play post queue record \
    refresh report request rewind schedule skip stake store trade vote";

/// Nouns and adjectives that look like forms of a verb of change. In this list, `_` separates words.
const NO_VERBS: &str = "\
    data_set result_set rule_set state_update tip_set validator_set working_set setting starting";

/// Unambiguous verbs of reading. They count as one of the first two words of a name's last part.
const READING: &str = "describe exists fetch find get has is lookup";

/// Verbs of reading that can also be nouns. They count only as the first word of a name's last part.
const READING_FIRST: &str = "count list read search";

/// Words that come before a noun but not before a verb.
const BEFORE_NOUNS: &str = "\
    a all an any current each every for given its last latest most my next of one per previous recent some \
    the their this with your describe describes fetch fetches find finds get gets list lists query queries \
    read reads retrieve retrieves return returns search searches show shows";

/// Words and punctuation that come before a verb.
const BEFORE_VERBS: &str =
    ". , also and automatically but it optionally or that then to which will";

const NEGATIONS: &str = "cannot never no nor not without";

/// Number of sentences of a description that are considered.
const MAX_SENTENCES: usize = 3;

/// Well-known methods that only read.
const KNOWN_READ_ONLY: &str = "\
    eth_accounts eth_blockNumber eth_call eth_chainId eth_estimateGas eth_feeHistory \
    eth_gasPrice eth_maxPriorityFeePerGas eth_syncing net_listening net_peerCount \
    net_version starknet_blockNumber starknet_call starknet_chainId system.listMethods \
    system.methodHelp system.methodSignature web3_clientVersion";

/// Phrases in the first sentences that mean read-only.
const READ_ONLY_PHRASES: &[&str] =
    &["read only", "does not change", "does not modify", "no side effect"];

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
    if contains_word(KNOWN_READ_ONLY, id) {
        return Some(Safety::ReadOnly);
    }
    let last = words(id.rsplit(['.', '/', ':']).next().unwrap_or(id));
    let is_reading = match last.as_slice() {
        // In an inbox, `read` marks messages as read.
        [word] if word == "read" => false,
        [first, ..] if contains_word(READING_FIRST, first) => true,
        words => words.iter().take(2).any(|word| contains_word(READING, word)),
    };
    // The other parts of an id are names of things, as in `trigger.get`.
    let name = if is_reading { last } else { words(id) };
    let description = first_sentences(description);
    if name_has_verb_of_change(&name) || description_has_verb_of_change(&description) {
        return Some(Safety::Destructive);
    }
    let is_stated = READ_ONLY_PHRASES.iter().any(|phrase| description.contains(phrase))
        && !description.contains("not read");
    (is_reading || is_stated).then_some(Safety::ReadOnly)
}

fn contains_word(list: &str, word: &str) -> bool {
    list.split(' ').any(|entry| entry == word)
}

/// Returns `true` if a name contains a verb of change. Examples are `getOrCreate` and `getFilterChanges`, but not
/// `getTipSet` and `getSignedMessage`.
fn name_has_verb_of_change(words: &[String]) -> bool {
    words.iter().enumerate().any(|(index, word)| {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        let is_noun =
            before.is_some_and(|before| contains_word(NO_VERBS, &format!("{before}_{word}")));
        !is_noun && matches!(form_in(CHANGING, word), Some(Form::Base | Form::Third))
    })
}

/// Returns `true` if one of the first sentences contains a verb of change. Examples are "Deletes a user" and "Gets or
/// creates a channel", but not "Returns a set of users" and "Runs without creating a transaction".
fn description_has_verb_of_change(sentences: &str) -> bool {
    let words: Vec<&str> = sentences.split(' ').filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().any(|(index, word)| {
        let before =
            |back: usize| index.checked_sub(back).and_then(|index| words.get(index)).copied();
        let previous = before(1).unwrap_or(".");
        let is_passive = contains_word("be been being", previous);
        if contains_word(NEGATIONS, if is_passive { before(2).unwrap_or(".") } else { previous }) {
            return false;
        }
        let as_verb = form_in(CHANGING_AS_VERB, word);
        if matches!(as_verb, Some(Form::Base | Form::Third))
            && contains_word(BEFORE_VERBS, previous)
        {
            return true;
        }
        let Some(form) = form_in(CHANGING, word) else { return false };
        let is_noun = contains_word(NO_VERBS, word)
            || contains_word(BEFORE_NOUNS, previous) && *word != "created"
            || form == Form::Base && contains_word("new open", word);
        !is_noun
    })
}

/// Returns the first sentences in lower case, without blocks of code and without punctuation other than `.` and `,`.
/// All words are separated by spaces.
fn first_sentences(description: &str) -> String {
    let mut text = String::new();
    // After the split, every second part is code.
    for prose in description.replace("\n\n", ". ").split("```").step_by(2) {
        for c in prose.chars() {
            match c {
                '.' | ';' | ':' | '!' | '?' => text.push_str(" . "),
                ',' | '(' | ')' => text.push_str(" , "),
                c if c.is_alphanumeric() || c == '\'' => text.extend(c.to_lowercase()),
                _ => text.push(' '),
            }
        }
    }
    let sentences = text.split(" . ").filter(|sentence| !sentence.trim().is_empty());
    sentences.take(MAX_SENTENCES).collect::<Vec<_>>().join(" . ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Base,
    /// `creates`.
    Third,
    /// `created` or `creating`.
    Participle,
}

/// Returns the form of a word if it is a form of a verb in the list.
fn form_in(list: &str, word: &str) -> Option<Form> {
    let is_verb = |stem: &str| contains_word(list, stem);
    let with_y =
        |stem: &str| stem.strip_suffix('i').is_some_and(|stem| is_verb(&format!("{stem}y")));
    if is_verb(word) {
        return Some(Form::Base);
    }
    let is_third =
        |end: &str| word.strip_suffix(end).is_some_and(|stem| is_verb(stem) || with_y(stem));
    if is_third("s") || is_third("es") {
        return Some(Form::Third);
    }
    // `submitted` and `stopping` double the last letter.
    let is_doubled = |stem: &str| {
        let mut from_end = stem.chars().rev();
        let shorter = from_end.next().and_then(|c| stem.strip_suffix(c));
        shorter.is_some_and(|shorter| {
            from_end.next().is_some_and(|c| stem.ends_with(c)) && is_verb(shorter)
        })
    };
    let mut stems = ["ed", "ing"].into_iter().filter_map(|end| word.strip_suffix(end));
    let is_participle = stems.any(|stem| {
        is_verb(stem) || is_verb(&format!("{stem}e")) || is_doubled(stem) || with_y(stem)
    });
    is_participle.then_some(Form::Participle)
}

/// Splits `ChainGetBlock`, `get_block` or `get-block` into words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lowercase = false;
    for c in name.chars() {
        let is_boundary = !c.is_alphanumeric() || (c.is_uppercase() && was_lowercase);
        if is_boundary {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_lowercase = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}
