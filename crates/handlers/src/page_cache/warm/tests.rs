use super::*;

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn job(order: Order) -> Arc<Job> {
    Job::new(order, Vec::new(), false)
}

fn take(job: &Job) -> Option<Task> {
    match job.next(Instant::now()) {
        Next::Do(task) => Some(task),
        Next::Wait(_) | Next::Over => None,
    }
}

#[test]
fn pages_in_all_variations() {
    let variations = vec![Vec::new(), vec![("Cookie".into(), "a=b".into())]];
    let job = job(Order {
        variations,
        ..Order::default()
    });
    job.add(
        &[url("http://h/a"), url("http://h/a"), url("http://h/b")],
        &[],
    );
    let mut taken = Vec::new();
    while let Some(Task::Page { url, variation }) = take(&job) {
        taken.push((url.target.clone(), job.variation(variation).len()));
        job.done(&url, variation, Outcome::Kept);
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
            report.figures.known,
            report.figures.kept,
            report.lines.len(),
            report.is_over
        ),
        (4, 4, 3, false)
    );
    let rest = job.look(report.next_line, 100);
    assert_eq!((rest.lines.len(), rest.is_over), (1, true));
    assert_eq!(job.next(Instant::now()), Next::Over);
}

#[test]
fn sitemaps_of_sitemaps() {
    let job = job(Order::default());
    job.add(&[], &[url("http://h/s.xml")]);
    let mut depths = Vec::new();
    while let Some(Task::Sitemap { url, depth }) = take(&job) {
        depths.push(depth);
        // One that names itself, further ones without end, one on another host.
        let more = format!("http://h/{depth}.xml");
        let entries = [url.to_string(), more, "http://other/s.xml".into()]
            .map(Entry::Sitemap)
            .to_vec();
        job.read(&url, depth, Ok(entries));
    }
    assert_eq!(depths, [0, 1, 2, 3]);
    let report = job.look(0, 100);
    assert!(report.is_over && report.lines.len() == 4, "{report:?}");
    let failed = self::job(Order::default());
    failed.add(&[], &[url("http://h/s.xml")]);
    let Some(Task::Sitemap { url, depth }) = take(&failed) else {
        panic!("a sitemap")
    };
    failed.read(&url, depth, Err("404".into()));
    assert_eq!(
        (failed.look(0, 1).figures.failed, failed.is_over()),
        (1, true)
    );
}

#[test]
fn it_ends_when_it_is_to_end() {
    let job = Job::new(
        Order {
            is_watched: true,
            rate: 10,
            ..Order::default()
        },
        Vec::new(),
        true,
    );
    let now = Instant::now();
    assert!(matches!(job.next(now), Next::Wait(_)), "more may come");
    job.add(&[url("http://h/1"), url("http://h/2")], &[]);
    assert!(matches!(job.next(now), Next::Do(_)));
    assert_eq!(job.next(now), Next::Wait(Duration::from_millis(100)));
    assert!(matches!(
        job.next(now + Duration::from_millis(100)),
        Next::Do(_)
    ));
    job.close();
    assert!(!job.is_over(), "two are under way");
    assert_eq!(job.next(now + UNWATCHED_MAX * 2), Next::Over);
    job.stop();
    job.done(&url("http://h/1"), 0, Outcome::There);
    job.done(&url("http://h/2"), 0, Outcome::There);
    assert!(job.is_over());
}

#[test]
fn jobs_are_counted() {
    let jobs = Jobs::default();
    let open = || Job::new(Order::default(), Vec::new(), true);
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
    let job = job(Order::default());
    (0..LINES_MAX + 5).for_each(|_| job.done(&url("http://h/"), 0, Outcome::There));
    let report = job.look(0, 1);
    assert_eq!((report.next_line, report.lines.len()), (6, 1));
}
