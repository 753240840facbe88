use super::*;

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn job(options: WarmOptions) -> Arc<WarmJob> {
    WarmJob::new(options, Vec::new(), false)
}

fn take(job: &WarmJob) -> Option<WarmTask> {
    match job.next(Instant::now()) {
        NextStep::Do(task) => Some(task),
        NextStep::Wait(_) | NextStep::Over => None,
    }
}

#[test]
fn pages_in_all_variations() {
    let variations = vec![Vec::new(), vec![("Cookie".into(), "a=b".into())]];
    let job = job(WarmOptions {
        variations,
        ..WarmOptions::default()
    });
    job.add(
        &[url("http://h/a"), url("http://h/a"), url("http://h/b")],
        &[],
    );
    let mut taken = Vec::new();
    while let Some(WarmTask::Page { url, variation }) = take(&job) {
        taken.push((url.target.clone(), job.variation(variation).len()));
        job.done(&url, variation, FetchOutcome::Stored);
    }
    assert_eq!(
        taken,
        [
            ("/a".to_owned(), 0),
            ("/a".into(), 1),
            ("/b".into(), 0),
            ("/b".into(), 1)
        ]
    );
    let report = job.look(0, 3);
    assert_eq!(
        (
            report.progress.known,
            report.progress.kept,
            report.lines.len(),
            report.is_over
        ),
        (4, 4, 3, false)
    );
    let rest = job.look(report.next_line, 100);
    assert_eq!((rest.lines.len(), rest.is_over), (1, true));
    assert_eq!(job.next(Instant::now()), NextStep::Over);
}

#[test]
fn sitemaps_of_sitemaps() {
    let job = job(WarmOptions::default());
    job.add(&[], &[url("http://h/s.xml")]);
    let mut depths = Vec::new();
    while let Some(WarmTask::Sitemap { url, depth }) = take(&job) {
        depths.push(depth);
        // One that names itself, further ones without end, one on another host.
        let more = format!("http://h/{depth}.xml");
        let entries = [url.to_string(), more, "http://other/s.xml".into()]
            .map(SitemapEntry::Sitemap)
            .to_vec();
        job.read(&url, depth, Ok(entries));
    }
    assert_eq!(depths, [0, 1, 2, 3]);
    let report = job.look(0, 100);
    assert!(report.is_over && report.lines.len() == 4, "{report:?}");
    let failed = self::job(WarmOptions::default());
    failed.add(&[], &[url("http://h/s.xml")]);
    let Some(WarmTask::Sitemap { url, depth }) = take(&failed) else {
        panic!("a sitemap")
    };
    failed.read(&url, depth, Err("404".into()));
    assert_eq!(
        (failed.look(0, 1).progress.failed, failed.is_over()),
        (1, true)
    );
}

#[test]
fn it_ends_when_it_is_to_end() {
    let job = WarmJob::new(
        WarmOptions {
            is_watched: true,
            rate: 10,
            ..WarmOptions::default()
        },
        Vec::new(),
        true,
    );
    let now = Instant::now();
    assert!(matches!(job.next(now), NextStep::Wait(_)), "more may come");
    job.add(&[url("http://h/1"), url("http://h/2")], &[]);
    assert!(matches!(job.next(now), NextStep::Do(_)));
    assert_eq!(job.next(now), NextStep::Wait(Duration::from_millis(100)));
    assert!(matches!(
        job.next(now + Duration::from_millis(100)),
        NextStep::Do(_)
    ));
    job.close();
    assert!(!job.is_over(), "two are under way");
    assert_eq!(job.next(now + UNWATCHED_MAX * 2), NextStep::Over);
    job.stop();
    job.done(&url("http://h/1"), 0, FetchOutcome::AlreadyCached);
    job.done(&url("http://h/2"), 0, FetchOutcome::AlreadyCached);
    assert!(job.is_over());
}

#[test]
fn a_limited_job_has_no_listener_for_other_pages() {
    let endpoint = ListenerEndpoint {
        listener: Arc::new(saker_config::model::Address::Tcp(
            ([127, 0, 0, 1], 80).into(),
        )),
        local: ([127, 0, 0, 1], 80).into(),
        tls: false,
        secure: false,
    };
    let limit: UrlLimit = Box::new(|url, _| url.host() == "own.example");
    let endpoints = vec![endpoint];
    let job = WarmJob::limited(WarmOptions::default(), endpoints, true, Some(limit));
    assert!(job.endpoint(&url("http://OWN.example/a")).is_some());
    for other in [
        "http://other.example/a",
        "http://own.example.other/",
        "http://other.example/http://own.example/",
    ] {
        assert!(job.endpoint(&url(other)).is_none(), "{other}");
    }
}

#[test]
fn jobs_are_counted() {
    let jobs = WarmJobs::default();
    let open = || WarmJob::new(WarmOptions::default(), Vec::new(), true);
    let all: Vec<_> = (0..JOBS_MAX).map(|_| open()).collect();
    let numbers: Vec<_> = all.iter().filter_map(|job| jobs.begin(job)).collect();
    assert_eq!(numbers.len(), JOBS_MAX);
    assert_eq!(jobs.begin(&open()), None);
    all[3].stop();
    assert!(jobs.begin(&open()).is_some());
    assert!(jobs.find(numbers[3]).is_none() && jobs.find(numbers[0]).is_some());
}

#[test]
fn lines_are_bounded() {
    let job = job(WarmOptions::default());
    (0..LINES_MAX + 5).for_each(|_| job.done(&url("http://h/"), 0, FetchOutcome::AlreadyCached));
    let report = job.look(0, 1);
    assert_eq!((report.next_line, report.lines.len()), (6, 1));
}
