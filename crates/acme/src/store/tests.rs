use super::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("saker-acme-{name}-{}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn bundle() -> Bundle {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    Bundle {
        chain: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_reads_it() {
    let scratch = Scratch::new("owner");
    let root = scratch.0.join("acme");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    let store = Store::open(&scratch.0).unwrap();
    store.save_account("https://ca.example/dir", "{}").unwrap();
    store
        .save_certificate(&names(&["a.example"]), &bundle())
        .unwrap();
    store
        .save_record(&Record::new(&names(&["a.example"]), false))
        .unwrap();
    store.save_order_times(&[1, 2]).unwrap();
    for folder in [&root, &store.accounts, &store.certificates] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let files: Vec<PathBuf> = [&store.accounts, &store.certificates]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 3);
    for file in files.iter().chain([&store.orders]) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}

#[test]
fn what_is_saved_comes_back() {
    let scratch = Scratch::new("back");
    let store = Store::open(&scratch.0).unwrap();
    let (names, bundle) = (names(&["*.a.example", "a.example"]), bundle());
    assert!(
        store.certificate(&names).is_none()
            && store.record(&names).is_none()
            && store.records().is_empty()
    );
    store.save_certificate(&names, &bundle).unwrap();
    store.save_certificate(&names, &bundle).unwrap();
    assert!(store.certificate(&names) == Some(bundle));
    let record = Record {
        failures: 2,
        ..Record::new(&names, true)
    };
    store.save_record(&record).unwrap();
    assert_eq!(
        (store.record(&names), store.records()),
        (Some(record.clone()), vec![record])
    );
    store
        .save_account("https://ca.example/dir", "{\"a\": 1}")
        .unwrap();
    assert_eq!(
        store.account("https://ca.example/dir").as_deref(),
        Some("{\"a\": 1}")
    );
    assert_eq!(store.account("https://ca.example/dir2"), None);
    store.save_order_times(&[3]).unwrap();
    assert_eq!(store.order_times(), [3]);
}

#[test]
fn a_broken_file_is_no_certificate() {
    let scratch = Scratch::new("broken");
    let store = Store::open(&scratch.0).unwrap();
    let (names, bundle) = (names(&["a.example"]), bundle());
    for broken in [
        String::new(),
        bundle.chain.clone(),
        bundle.key.clone(),
        format!("{}{}", bundle.key, &bundle.chain[..40]),
    ] {
        fs::write(store.file(&names, "pem"), broken).unwrap();
        assert!(store.certificate(&names).is_none());
    }
    fs::write(store.file(&names, "json"), "{").unwrap();
    assert_eq!(store.record(&names), None);
    fs::write(&store.orders, "{").unwrap();
    assert!(store.order_times().is_empty());
}

/// A temporary file left by a crash does not get in the way.
#[test]
fn a_left_over_is_replaced() {
    let scratch = Scratch::new("left");
    let store = Store::open(&scratch.0).unwrap();
    fs::write(store.orders.with_extension("new"), "x").unwrap();
    store.save_order_times(&[3]).unwrap();
    assert_eq!((store.order_times(), mode(&store.orders)), (vec![3], 0o600));
}

#[test]
fn file_names() {
    assert_eq!(key(&names(&["a.example"])), "a.example");
    assert_eq!(key(&names(&["*.a.example"])), "_.a.example");
    assert_eq!(key(&names(&["../../etc"])), ".._.._etc");
    let several = key(&names(&["a.example", "b.example"]));
    assert!(
        several.starts_with("a.example+") && several != key(&names(&["a.example", "c.example"]))
    );
    assert!(key(&names(&[&"a".repeat(300)])).len() < 240);
}
