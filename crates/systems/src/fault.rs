//! The faults of `run.fault` and `--fault`, as text.
//!
//! ```text
//! KIND@WHEN[:SPAN][,…]       lost-interrupt@3   late-completion@every=50:200us   link-flap@2ms:1ms
//! ```

use super::key::{Grammar, Values, convert};
use crate::SettingError;
use crate::hint;
use doorbell_bus::fault::{Kind, Rule, When};
use doorbell_hal::Span;
use doorbell_sim::fault::{Flap, Plan};

/// The effect of a kind.
#[derive(Clone, Copy)]
enum Meaning {
    Platform(Kind),
    /// A fault of the platform that lasts for the span behind the colon.
    Lasting(fn(Span) -> Kind),
    /// The link goes down for the span behind the colon.
    LinkFlap,
}

/// Kinds, in the order of messages.
const KINDS: [(&str, Meaning); 5] = [
    ("lost-interrupt", Meaning::Platform(Kind::LostInterrupt)),
    ("late-completion", Meaning::Lasting(Kind::LateCompletion)),
    ("poisoned-completion", Meaning::Platform(Kind::PoisonedCompletion)),
    ("dma-fault", Meaning::Platform(Kind::DmaFault)),
    ("link-flap", Meaning::LinkFlap),
];

/// The syntax, for messages.
const ALLOWED: &str = "KIND@WHEN, several with commas: lost-interrupt@N, \
   late-completion@N:SPAN, poisoned-completion@N, dma-fault@N, link-flap@TIME:SPAN; \
   N may be every=N or random=N (one in N), TIME every=TIME";

/// The form of `run.fault`.
pub(crate) const FORM: Grammar =
    Grammar { allowed: ALLOWED, check: |text| parse(text).map(|_| ()) };

/// The most by which a completion is late: the longest that PCI Express waits for one by default
/// (PCI Express 3.0, 7.8.15, completion timeout).
const LATEST: Span = Span::from_ms(50);

/// Parses a time with its unit, above zero and less than a day.
fn span(text: &str) -> Option<Span> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
    let (number, unit) = text.split_at(end);
    let ps = convert(number.trim().parse().ok().filter(|n: &f64| *n >= 0.0)?, unit, "ps")?;
    // Less than half a picosecond rounds to zero.
    (ps < 8.64e16).then(|| Span::from_ps(ps.round() as u64)).filter(|s| *s > Span::ZERO)
}

/// Parses `text`. An error names the wrong part and the syntax.
pub(super) fn parse(text: &str) -> Result<Plan, SettingError> {
    let mut plan = Plan::default();
    for one in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
        let wrong = |why: String| Err(SettingError(format!("`{one}`: {why}; allowed: {ALLOWED}")));
        let (kind, rest) = one.split_once('@').unwrap_or((one, ""));
        let Some((kind, meaning)) = KINDS.iter().find(|k| k.0 == kind).copied() else {
            let near = hint(kind, KINDS.iter().map(|k| k.0));
            return wrong(format!("no fault is called `{kind}`{near}"));
        };
        let (when, lasts) = match rest.split_once(':') {
            Some((when, lasts)) => (when, Some(lasts)),
            None => (rest, None),
        };
        let lasts = match (meaning, lasts) {
            (Meaning::Platform(_), Some(_)) => return wrong(format!("{kind} takes no time")),
            (Meaning::Platform(_), None) => Span::ZERO,
            (_, Some(text)) => match span(text) {
                Some(s) => s,
                None => return wrong(format!("`{text}` is no time such as 200us")),
            },
            (_, None) => {
                return wrong(format!("{kind} takes a time behind a colon, such as :200us"));
            }
        };
        if matches!(meaning, Meaning::Lasting(_)) && lasts > LATEST {
            return wrong("a completion is late by 50 ms at most, as long as a host waits".into());
        }
        let kind = match meaning {
            Meaning::Platform(kind) => Some(kind),
            Meaning::Lasting(kind) => Some(kind(lasts)),
            Meaning::LinkFlap => None,
        };
        let Some(kind) = kind else {
            let (text, again) = when.strip_prefix("every=").map_or((when, false), |t| (t, true));
            let Some(after) = span(text) else {
                return wrong(format!("`{when}` is no time such as 2ms"));
            };
            if again && after <= lasts {
                return wrong("the link would never be up".to_owned());
            }
            plan.flaps.push(Flap { after, lasts, again });
            continue;
        };
        let number = |t: &str| t.parse::<u64>().ok().filter(|n| *n > 0);
        let when = match when.split_once('=') {
            None => number(when).map(When::Nth),
            Some(("every", n)) => number(n).map(When::Every),
            Some(("random", n)) => number(n).map(When::OneIn),
            Some(_) => None,
        };
        let Some(when) = when else {
            return wrong(
                "it does not say which, counted from 1: @3, @every=3 or @random=3".into(),
            );
        };
        plan.rules.push(Rule { kind, when });
    }
    Ok(plan)
}

/// Returns the faults of these values. `watchdog` is the timeout of the driver's queues in Linux.
pub(crate) fn plan(v: &Values, watchdog: Span) -> Plan {
    // The key checked the text when it was set.
    let plan = parse(v.text("run.fault")).unwrap_or_default();
    if plan.is_empty() {
        return plan;
    }
    let ms = v.number_or_word("run.watchdog").map(|ms| Span::from_ps((ms * 1e9).round() as u64));
    Plan { seed: v.number("run.seed") as u64, watchdog: ms.unwrap_or(watchdog), ..plan }
}

#[cfg(test)]
mod tests;
