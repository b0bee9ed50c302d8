//! Unguessable ids of questions and tasks.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Number of random bytes of an id.
const RANDOM_ID: usize = 18;
/// Length of an id in Base64.
const RANDOM_ID_TEXT: usize = RANDOM_ID / 3 * 4;

/// Returns an unguessable text, or `None` if no random number is available.
pub(crate) fn random_id() -> Option<String> {
    let mut id = [0; RANDOM_ID];
    getrandom::fill(&mut id).ok()?;
    Some(URL_SAFE_NO_PAD.encode(id))
}

/// Returns `true` if a text has the form that [`random_id`] generates.
pub(crate) fn is_random_id(text: &str) -> bool {
    let mut id = [0; RANDOM_ID];
    text.len() == RANDOM_ID_TEXT && URL_SAFE_NO_PAD.decode_slice(text, &mut id).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_in_the_generated_form_are_random_ids() {
        assert!(is_random_id(&random_id().unwrap()));
        for text in ["", "7", "question-1", &"!".repeat(24), &"a".repeat(25), &"a".repeat(48)] {
            assert!(!is_random_id(text), "{text}");
        }
    }
}
