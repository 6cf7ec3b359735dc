//! Quotas in a browser: what is used of them, when they begin anew, and what holds then, as `status
//! --json`, `top` and the metrics have it.

use super::{QuotaView, Steady, Web, names, opened, status, top};
use control::calendar;
use control::protocol::SettingChange;
use serde_json::json;

/// Used up, and a third of it used.
fn quotas() -> [(String, QuotaView); 2] {
    let of = |class: &str, used: u64, then: &[(&str, &str)]| {
        let volume = 3_000_000;
        let then = then
            .iter()
            .map(|(key, value)| ((*key).to_owned(), SettingChange::Text((*value).into())));
        let view = QuotaView {
            volume_bytes: volume,
            per: "month".into(),
            used_bytes: used,
            ends_ms: 1_796_083_200_000,
            used_up: used >= volume,
            then: then.collect(),
        };
        (class.to_owned(), view)
    };
    [
        of("site-1", 3_100_000, &[("upperlimit", "400 kbit/s")]),
        of("site-2", 1_000_000, &[]),
    ]
}

#[test]
fn a_browser_shows_how_quotas_stand_as_status_top_and_metrics_do() {
    let steady = Steady {
        quotas: quotas().into(),
        ..Steady::new(&names(4), true)
    };
    let web = Web::start("quotas", steady);
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    browser.wait_for("document.querySelector('.quotas summary').textContent === '2 quotas, 1 used up'");
    let _ = browser.evaluate("document.querySelector('.quotas').open = true");
    browser.wait_for("document.querySelectorAll('.quotas tbody tr').length === 2");
    let rows = "[...document.querySelectorAll('.quotas tbody tr')]";
    let shown = browser.evaluate(&format!(
        "{rows}.map(row => [...row.cells].map(cell => cell.textContent))"
    ));
    // The page has the browser's clock, which is this computer's.
    let anew = calendar::shown(1_796_083_200_000);
    let (anew, _) = anew.rsplit_once(':').expect("seconds");
    let expected = json!([
        [
            "site-1",
            "3.10 MB",
            "",
            "3.00 MB per month",
            anew,
            "upperlimit = 400 kbit/s"
        ],
        ["site-2", "1.00 MB", "", "3.00 MB per month", anew, "it is told"],
    ]);
    assert_eq!(shown, expected);
    let marked = browser.evaluate(&format!("{rows}.map(row => row.classList.contains('used-up'))"));
    assert_eq!(marked, json!([true, false]));

    // The same part of it in the table of classes, in `top`, in JSON and in the metrics.
    let status = status(&web);
    let (_, metrics) = web.get("/metrics", "localhost");
    let top = top(&web.socket, 200);
    for (class, quota) in quotas() {
        let share = quota.used_bytes as f64 / quota.volume_bytes as f64;
        let cell = format!(
            "[...document.querySelectorAll('section > .table tbody tr')]
                .find(row => row.cells[0].textContent === '{class}').cells[11]"
        );
        browser.wait_for(&format!("{cell}.textContent === '{:.0} %'", share * 100.0));
        assert_eq!(
            browser.evaluate(&format!("getComputedStyle({cell}).display")),
            "table-cell"
        );
        let classes = status["interfaces"][0]["classes"].as_array().expect("classes");
        let known = classes
            .iter()
            .find(|known| known["name"] == class.as_str())
            .expect("the class");
        assert_eq!(known["quota"], serde_json::to_value(&quota).expect("JSON"));
        let counted = format!(
            "suimon_class_quota_used_bytes{{interface=\"wan0\",class=\"{class}\"}} {}.0\n",
            quota.used_bytes
        );
        assert!(metrics.contains(&counted), "{counted} is not in {metrics}");
        let line = top.lines().find(|line| line.contains(&class)).expect("the class");
        let shown = measure::numbers::share(share);
        assert!(line.contains(&shown), "{shown} in\n{top}");
    }
}

#[test]
fn without_quotas_the_page_has_no_column_of_them() {
    let web = Web::start("no-quotas", Steady::new(&names(4), true));
    let Some(mut browser) = opened(&web, (1200, 1000)) else {
        return;
    };
    browser.wait_for("document.querySelectorAll('section > .table tbody tr').length > 4");
    let hidden = browser.evaluate(
        "[document.querySelector('.quotas').hidden, getComputedStyle(document.querySelector('th.quota')).display]",
    );
    assert_eq!(hidden, json!([true, "none"]));
}
