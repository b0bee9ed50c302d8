//! Computes the values of constant expressions.

use std::cell::Cell;

use serde_json::{Map, Number, Value};

use super::symbols::Context;
use super::syntax::{Class, Element, Expression, Kind, argument, short};

/// Maximum number of steps to evaluate an expression and the constants that it uses.
const MAX_STEPS: usize = 100_000;
/// Maximum nesting depth of an expression and of the constants that it uses.
const MAX_DEPTH: usize = 200;
/// Maximum total size of the strings that are created while an expression is evaluated, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Returns the value of an expression, or `None` if it is not constant or exceeds a limit.
pub(super) fn evaluate(context: Context<'_>, expression: &Expression) -> Option<Value> {
    let (steps, bytes) = (&Cell::new(MAX_STEPS), &Cell::new(MAX_BYTES));
    Evaluation { depth: 0, steps, bytes }.value(expression, context)
}

#[derive(Clone, Copy)]
struct Evaluation<'t> {
    depth: usize,
    steps: &'t Cell<usize>,
    bytes: &'t Cell<usize>,
}

/// A PHP array. It may be a list or a map.
#[derive(Default)]
struct Pairs {
    members: Map<String, Value>,
    next: i64,
    is_list: bool,
}

impl Evaluation<'_> {
    fn value(self, expression: &Expression, context: Context<'_>) -> Option<Value> {
        consume(self.steps, 1)?;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let inner = Self { depth: self.depth + 1, ..self };
        match expression {
            Expression::Scalar(value) => {
                consume(self.bytes, value.as_str().map_or(0, str::len))?;
                Some(value.clone())
            }
            Expression::Array(elements) => inner.array(elements, context),
            Expression::Constant { class: Some(class), name } => {
                inner.class_constant(class, name, context)
            }
            Expression::Constant { class: None, name } => inner.constant(name, context),
            // For a translated text, the original text is used.
            Expression::Call { is_new, name, arguments } => {
                let translator = if *is_new { "TranslatableMarkup" } else { "t" };
                let text =
                    argument(arguments, "string", 0).filter(|_| short(name) == translator)?;
                inner.value(text, context).filter(Value::is_string)
            }
            Expression::Operation { operator, operands } => match operands.as_slice() {
                [operand] => unary(operator, &inner.value(operand, context)?),
                [Expression::Constant { class: Some(class), name: case }, name]
                    if operator == "->" =>
                {
                    inner.member(class, case, inner.value(name, context)?.as_str()?, context)
                }
                [left, right] => inner.binary(
                    &inner.value(left, context)?,
                    operator,
                    &inner.value(right, context)?,
                ),
                _ => None,
            },
            Expression::Unknown => None,
        }
    }

    fn array(self, elements: &[Element], context: Context<'_>) -> Option<Value> {
        let mut pairs = Pairs { is_list: true, ..Pairs::default() };
        for element in elements {
            match element {
                Element::Item(item) => pairs.push(self.value(item, context)?),
                Element::Pair(key, value) => {
                    pairs.insert(&self.value(key, context)?, self.value(value, context)?)?;
                }
                Element::Spread(spread) => match self.value(spread, context)? {
                    Value::Array(items) => items.into_iter().for_each(|item| pairs.push(item)),
                    Value::Object(members) => {
                        for (key, value) in members {
                            pairs.insert(&Value::String(key), value)?;
                        }
                    }
                    _ => return None,
                },
            }
        }
        Some(pairs.finish())
    }

    fn class_constant(self, class: &str, name: &str, context: Context<'_>) -> Option<Value> {
        let full_name = context.resolve(class);
        if name == "class" {
            return Some(Value::String(full_name));
        }
        let mut current = context.symbols.class(&full_name);
        // Searches the parents, because constants are inherited.
        for _ in 0..MAX_DEPTH {
            let class = current?;
            if let Some(constant) = class.constants.get(name) {
                return self.value(constant, context.symbols.context_of(class));
            }
            if class.kind == Kind::Enum {
                return self.case(class, name, context);
            }
            current = context.symbols.parent(class);
        }
        None
    }

    /// Returns the value that represents an enum case in JSON.
    fn case(self, class: &Class, name: &str, context: Context<'_>) -> Option<Value> {
        let (name, value) = class.cases.iter().find(|(case, _)| case == name)?;
        match value {
            Some(value) => self.value(value, context.symbols.context_of(class)),
            None => Some(Value::String(name.clone())),
        }
    }

    fn constant(self, name: &str, context: Context<'_>) -> Option<Value> {
        match name.trim_start_matches('\\') {
            "PHP_INT_MAX" => Some(Value::from(i64::MAX)),
            "PHP_INT_MIN" => Some(Value::from(i64::MIN)),
            "PHP_EOL" => Some(Value::from("\n")),
            "M_PI" => Some(Value::from(std::f64::consts::PI)),
            _ => {
                let (scope, expression) = context.constant(name)?;
                self.value(expression, Context { scope, class: None, ..context })
            }
        }
    }

    /// Returns `->value` or `->name` of an enum case.
    fn member(self, class: &str, case: &str, name: &str, context: Context<'_>) -> Option<Value> {
        let class = context.symbols.class(&context.resolve(class))?;
        let is_case = class.cases.iter().any(|(declared, _)| declared == case);
        match name {
            "value" if is_case => self.case(class, case, context),
            "name" if is_case => Some(Value::String(case.to_owned())),
            _ => None,
        }
    }

    fn binary(self, left: &Value, operator: &str, right: &Value) -> Option<Value> {
        if operator == "[]" {
            return match left {
                Value::Array(items) => items.get(usize::try_from(right.as_u64()?).ok()?).cloned(),
                Value::Object(members) => members.get(&as_text(right)?).cloned(),
                _ => None,
            };
        }
        if operator == "." {
            let (left, right) = (as_text(left)?, as_text(right)?);
            consume(self.bytes, left.len() + right.len())?;
            return Some(Value::String(left + &right));
        }
        if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
            let bits = u32::try_from(right).ok();
            let result = match operator {
                "+" => left.checked_add(right),
                "-" => left.checked_sub(right),
                "*" => left.checked_mul(right),
                "%" => left.checked_rem(right),
                "**" => left.checked_pow(bits?),
                "|" => Some(left | right),
                "&" => Some(left & right),
                "^" => Some(left ^ right),
                "<<" => left.checked_shl(bits?),
                ">>" => left.checked_shr(bits?),
                "/" if left.checked_rem(right) == Some(0) => left.checked_div(right),
                _ => None,
            };
            return result.map(Value::from);
        }
        let (left, right) = (left.as_f64()?, right.as_f64()?);
        let result = match operator {
            "+" => left + right,
            "-" => left - right,
            "*" => left * right,
            "/" => left / right,
            _ => return None,
        };
        Number::from_f64(result).map(Value::Number)
    }
}

impl Pairs {
    fn push(&mut self, value: Value) {
        self.members.insert(self.next.to_string(), value);
        self.next = self.next.saturating_add(1);
    }

    /// Inserts a member. A key is an integer or a string. As in PHP, a numeric string becomes an integer.
    fn insert(&mut self, key: &Value, value: Value) -> Option<()> {
        let key = match key {
            Value::Bool(flag) => i64::from(*flag).to_string(),
            Value::Null => String::new(),
            Value::Number(number) => number.as_i64()?.to_string(),
            Value::String(text) => text.clone(),
            _ => return None,
        };
        match key.parse::<i64>() {
            Ok(number) if number.to_string() == key => {
                self.is_list &= number == self.next || self.members.contains_key(&key);
                self.next = self.next.max(number.saturating_add(1));
            }
            _ => self.is_list = false,
        }
        self.members.insert(key, value);
        Some(())
    }

    fn finish(self) -> Value {
        if self.is_list {
            return Value::Array(self.members.into_iter().map(|(_, value)| value).collect());
        }
        Value::Object(self.members)
    }
}

fn unary(operator: &str, value: &Value) -> Option<Value> {
    match operator {
        "+" => Some(value.clone()).filter(Value::is_number),
        "!" => value.as_bool().map(|flag| Value::Bool(!flag)),
        "~" => value.as_i64().map(|number| Value::from(!number)),
        "-" => match value.as_i64() {
            Some(number) => number.checked_neg().map(Value::from),
            None => value.as_f64().and_then(|number| Number::from_f64(-number)).map(Value::Number),
        },
        _ => None,
    }
}

/// Converts a value to a string by the rules of PHP.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() => Some(number.to_string()),
        Value::Null | Value::Bool(false) => Some(String::new()),
        Value::Bool(true) => Some("1".to_owned()),
        _ => None,
    }
}

fn consume(budget: &Cell<usize>, amount: usize) -> Option<()> {
    budget.set(budget.get().checked_sub(amount)?);
    Some(())
}
