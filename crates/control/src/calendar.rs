//! Moments by the computer's clock, as users write and read them, in its time zone.

use engine::choices;
use jiff::civil::{DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use std::time::{SystemTime, UNIX_EPOCH};

choices! {
    /// In which time of the calendar a volume is counted, by the computer's clock and time zone.
    pub enum Period {
        /// From midnight.
        Day = "day",
        /// From Monday.
        Week = "week",
        /// From the first of the month.
        Month = "month",
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The moment in milliseconds since 1970 that `18:00` (the next one after `now_ms`) or
/// `2026-12-24 18:00` names.
///
/// # Errors
///
/// Returns what is expected, or that the moment is over.
pub fn moment(word: &str, now_ms: u64) -> Result<u64, String> {
    moment_in(&TimeZone::system(), word, now_ms)
}

/// A moment in milliseconds since 1970, as people read it.
pub fn shown(ms: u64) -> String {
    match zoned(&TimeZone::system(), ms) {
        Some(zoned) => zoned.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        None => format!("{ms} ms after 1970"),
    }
}

/// When the day, week or month of this moment ends, in milliseconds since 1970; `None` if the
/// computer's clock is that far off that no calendar has it.
pub fn end_of(period: Period, ms: u64) -> Option<u64> {
    end_in(&TimeZone::system(), period, ms)
}

fn end_in(zone: &TimeZone, period: Period, ms: u64) -> Option<u64> {
    let today = zoned(zone, ms)?.date();
    let next = match period {
        Period::Day => today.tomorrow(),
        Period::Week => today.nth_weekday(1, Weekday::Monday),
        Period::Month => today.last_of_month().tomorrow(),
    };
    let begins = next
        .ok()?
        .to_datetime(Time::midnight())
        .to_zoned_datetime(zone.clone());
    u64::try_from(begins.ok()?.timestamp().as_millisecond()).ok()
}

fn zoned(zone: &TimeZone, ms: u64) -> Option<ZonedDateTime> {
    let moment = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(moment.to_zoned_datetime(zone.clone()))
}

fn moment_in(zone: &TimeZone, word: &str, now_ms: u64) -> Result<u64, String> {
    let wrong =
        || format!("`{word}`: expected a time such as 18:00, or a date and a time such as 2026-12-24 18:00");
    let now = zoned(zone, now_ms).ok_or_else(|| "the computer's clock is wrong".to_owned())?;
    let next = |time: Time| {
        let today = now.date().to_datetime(time).to_zoned_datetime(zone.clone())?;
        match today > now {
            true => Ok(today),
            false => now
                .date()
                .checked_add(1.day())?
                .to_datetime(time)
                .to_zoned_datetime(zone.clone()),
        }
    };
    let found = match (word.parse::<DateTime>(), word.parse::<Time>()) {
        // A date alone would be midnight: hardly what is meant.
        (Ok(date), _) if word.contains(':') => date.to_zoned_datetime(zone.clone()),
        (_, Ok(time)) => next(time),
        _ => return Err(wrong()),
    };
    let found = found.map_err(|_| wrong())?.timestamp().as_millisecond();
    match u64::try_from(found) {
        Ok(found) if found > now_ms => Ok(found),
        _ => Err(format!("`{word}` is over")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-25, 12:00 UTC.
    const NOON: u64 = 1_795_608_000_000;
    const HOUR: u64 = 3_600_000;

    #[test]
    fn a_time_is_the_next_one_and_a_date_is_that_day() {
        let at = |word| moment_in(&TimeZone::UTC, word, NOON);
        assert_eq!(at("18:00"), Ok(NOON + 6 * HOUR));
        assert_eq!(at("18:30:10"), Ok(NOON + 6 * HOUR + HOUR / 2 + 10_000));
        assert_eq!(at("12:00"), Ok(NOON + 24 * HOUR));
        assert_eq!(at("08:00"), Ok(NOON + 20 * HOUR));
        assert_eq!(at("2026-11-26 12:00"), Ok(NOON + 24 * HOUR));
        assert_eq!(at("2026-11-26T12:00"), Ok(NOON + 24 * HOUR));
        for wrong in [
            "",
            "6pm",
            "25:00",
            "2026-11-31 10:00",
            "2026-11-26",
            "2026-11-25 11:59",
        ] {
            assert!(at(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_day_a_week_and_a_month_end_at_midnight_of_the_time_zone() {
        use Period::{Day, Month, Week};
        let utc = |period, ms| end_in(&TimeZone::UTC, period, ms);
        // 2026-11-25 is a Wednesday.
        assert_eq!(utc(Day, NOON), Some(NOON + 12 * HOUR));
        assert_eq!(utc(Week, NOON), Some(NOON + (12 + 4 * 24) * HOUR));
        assert_eq!(utc(Month, NOON), Some(NOON + (12 + 5 * 24) * HOUR));
        // The first moment of a time is of that one, the last of the one before.
        let monday = NOON + (12 + 4 * 24) * HOUR;
        assert_eq!(utc(Week, monday), Some(monday + 7 * 24 * HOUR));
        assert_eq!(utc(Week, monday - 1), Some(monday));
        let december = NOON + (12 + 5 * 24) * HOUR;
        assert_eq!(utc(Month, december), Some(december + 31 * 24 * HOUR));
        assert_eq!(utc(Month, december - 1), Some(december));
        let east = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(end_in(&east, Day, NOON), Some(NOON + 3 * HOUR));
        assert_eq!(utc(Month, u64::MAX), None);
    }

    #[test]
    fn a_time_is_that_of_the_time_zone() {
        let east = TimeZone::fixed(jiff::tz::offset(9));
        assert_eq!(moment_in(&east, "22:00", NOON), Ok(NOON + HOUR));
        assert_eq!(moment_in(&east, "20:00", NOON), Ok(NOON + 23 * HOUR));
    }

    #[test]
    fn a_day_ends_after_any_moment_of_it_wherever_the_computer_is() {
        let end = end_of(Period::Day, NOON).expect("a calendar has it");
        assert!((NOON + 1..=NOON + 25 * HOUR).contains(&end), "{end}");
        assert_eq!(end_of(Period::Day, u64::MAX), None);
    }
}
