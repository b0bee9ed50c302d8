//! Binds values and reads rows.

use std::borrow::Cow;

use tiberius::{ColumnData, Query};

use crate::db::database::{Cell, Row, Value};

const SECONDS_PER_DAY: i64 = 86_400;

/// Splits a script at lines with `GO`.
pub(super) fn batches(script: &str) -> Vec<String> {
    let mut batches = vec![String::new()];
    for line in script.lines() {
        if line.trim().eq_ignore_ascii_case("GO") {
            batches.push(String::new());
        } else if let Some(batch) = batches.last_mut() {
            batch.push_str(line);
            batch.push('\n');
        }
    }
    batches.retain(|batch| !batch.trim().is_empty());
    batches
}

/// Binds a value. Times are sent as text and cast by the dialect.
pub(super) fn bind<'a>(query: &mut Query<'a>, value: Value<'a>) {
    match value {
        Value::Int(value) => query.bind(value),
        Value::Text(value) | Value::Json(value) => query.bind(value),
        Value::Flag(value) => query.bind(value),
        Value::Time(value) => {
            query.bind(value.map(|seconds| Cow::<str>::Owned(format_time(seconds))));
        }
    }
}

/// Formats a Unix time as `2026-11-16T12:00:00` in UTC.
fn format_time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    // The calculation uses years that begin in March, so that the leap day is the last day. 400 years have 146,097
    // days.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next_year;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

pub(super) fn row(row: tiberius::Row) -> Row {
    Row::new(row.into_iter().map(cell).collect())
}

fn cell(data: ColumnData<'static>) -> Cell {
    let number = |value: Option<i64>| value.map_or(Cell::Null, Cell::Int);
    let text = |value: Option<String>| value.map_or(Cell::Null, Cell::Text);
    match data {
        ColumnData::Bit(value) => number(value.map(i64::from)),
        ColumnData::U8(value) => number(value.map(i64::from)),
        ColumnData::I16(value) => number(value.map(i64::from)),
        ColumnData::I32(value) => number(value.map(i64::from)),
        ColumnData::I64(value) => number(value),
        ColumnData::String(value) => text(value.map(Cow::into_owned)),
        ColumnData::F32(value) => text(value.map(|value| value.to_string())),
        ColumnData::F64(value) => text(value.map(|value| value.to_string())),
        ColumnData::Numeric(value) => text(value.map(|value| value.to_string())),
        ColumnData::Guid(value) => text(value.map(|value| value.to_string())),
        ColumnData::Xml(value) => text(value.map(|value| value.as_ref().as_ref().to_owned())),
        ColumnData::Binary(Some(bytes)) => {
            Cell::Broken(String::from_utf8_lossy(&bytes).into_owned())
        }
        ColumnData::DateTime(Some(value)) => Cell::Broken(format!("{value:?}")),
        ColumnData::SmallDateTime(Some(value)) => Cell::Broken(format!("{value:?}")),
        ColumnData::DateTime2(Some(value)) => Cell::Broken(format!("{value:?}")),
        ColumnData::DateTimeOffset(Some(value)) => Cell::Broken(format!("{value:?}")),
        ColumnData::Date(Some(value)) => Cell::Broken(format!("{value:?}")),
        ColumnData::Time(Some(value)) => Cell::Broken(format!("{value:?}")),
        _ => Cell::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_split_at_lines_with_go() {
        let script = "CREATE TABLE a (go INT);\nGO\n\n  go \nCREATE TRIGGER b\nON a\r\nGO\r\n";
        assert_eq!(batches(script), ["CREATE TABLE a (go INT);\n", "CREATE TRIGGER b\nON a\n"]);
    }

    #[test]
    fn times_are_formatted_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_794_830_424, "2026-11-16T12:00:24"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(format_time(seconds), text);
        }
    }
}
