//! `saker init`: writes a `saker.toml` for the application in a directory.
//!
//! Called by: `lib`.
//! Caveat: nothing is written that `saker check` would refuse, and no file is overwritten without
//! `--force`. Questions are asked on a terminal only, and each has an answer that Enter gives.
//! Out of scope: what an application needs (presets of `saker-config`).

mod answers;
mod application;
mod backend;
mod htaccess;
mod text;

#[cfg(test)]
mod tests;

use crate::{
    arguments::Init,
    check,
    exit_status::{CANNOT, CONFIGURATION_ERRORS, OK},
    locations,
    output::{self, cannot},
};
use answers::Answers;
use application::Application;
use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub fn init(init: Init) -> ExitCode {
    match try_init(&init) {
        Ok(path) => finish(&path),
        Err(why) => cannot(why),
    }
}

fn try_init(init: &Init) -> Result<PathBuf, String> {
    let output = init.output.clone().unwrap_or_else(|| "saker.toml".into());
    if !init.force && output.symlink_metadata().is_ok() {
        return Err(format!(
            "{} exists; --force overwrites it, -o names another file",
            output.display()
        ));
    }
    let directory = init.directory.clone().unwrap_or_else(|| ".".into());
    let directory = fs::canonicalize(&directory)
        .ok()
        .filter(|found| found.is_dir())
        .ok_or_else(|| format!("{}: not a directory", directory.display()))?;
    let answers = answers(init, &directory, &output)?;
    let text = text::text(&answers);
    let name = output.display().to_string();
    // What can't be served must not be left behind as if it could.
    saker_config::parse(&text, &name, &answers.folder).map_err(|diagnostics| {
        format!("these answers don't make a configuration:\n{diagnostics}")
    })?;
    write(&output, &text, init.force)
        .map_err(|error| format!("cannot write {}: {error}", output.display()))?;
    output::error(format_args!(
        "{}: {}\n",
        output.display(),
        answers.application.summary()
    ));
    if answers.has_htaccess {
        let what = match answers.applies_htaccess() {
            true => "are applied (htaccess = true)",
            false => {
                "are not applied with this preset; folders that they close are closed, and other \
                 rules in them have to be written into this file"
            }
        };
        output::error(format_args!(
            "{}: .htaccess files {what}\n",
            output.display()
        ));
    }
    Ok(output)
}

fn answers(init: &Init, directory: &Path, output: &Path) -> Result<Answers, String> {
    let mut application = match &init.preset {
        Some(name) => Application::of_preset(name, directory)?,
        None => application::detect(directory),
    };
    let asks = !init.yes && io::stdin().is_terminal();
    let mut domains = init.domain.clone();
    if asks {
        application = ask_application(application, directory)?;
        if domains.is_empty() {
            domains = ask_domains()?;
        }
    }
    for domain in &domains {
        if !domain.contains('.') || domain.contains(['/', ':', '*', ' ']) {
            return Err(format!(
                "--domain {domain}: a name such as example.org, which leads to this machine"
            ));
        }
    }
    let php = match (&init.php, application.needs_php()) {
        (Some(php), _) => {
            saker_config::parse_php_use(php).map_err(|why| format!("--php {php}: {why}"))?;
            Some(php.clone())
        }
        (None, true) if asks => Some(ask_php()?),
        (None, true) => Some(backend::php(Path::new("/"))),
        (None, false) => None,
    };
    let folder = locations::absolute(output)
        .parent()
        .map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let is_of_files = !matches!(application.kind, application::Kind::Node(_));
    Ok(Answers {
        has_htaccess: is_of_files && htaccess::is_below(&application.root),
        application,
        php,
        domains,
        folder: fs::canonicalize(&folder).unwrap_or(folder),
        is_root: rustix::process::geteuid().is_root(),
    })
}

fn ask_application(found: Application, directory: &Path) -> Result<Application, String> {
    let name = found.name();
    let answer = ask(&format!("Application ({})", found.summary()), name)?;
    match answer == name {
        true => Ok(found),
        false => Application::of_preset(&answer, directory),
    }
}

fn ask_domains() -> Result<Vec<String>, String> {
    let question = "Host names for https:// with a certificate from Let's Encrypt, whose terms of \
                    service you agree to (empty: this machine only)";
    let answer = ask(question, "")?;
    let names = answer.split([' ', ',']).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

fn ask_php() -> Result<String, String> {
    loop {
        let answer = ask(
            "PHP (auto, off, unix:PATH, HOST:PORT)",
            &backend::php(Path::new("/")),
        )?;
        match saker_config::parse_php_use(&answer) {
            Ok(_) => return Ok(answer),
            Err(why) => output::error(format_args!("{why}\n")),
        }
    }
}

/// Asks on standard error; Enter means `usual`.
fn ask(question: &str, usual: &str) -> Result<String, String> {
    let usual_shown = match usual {
        "" => String::new(),
        usual => format!(" [{usual}]"),
    };
    output::error(format_args!("{question}{usual_shown}: "));
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => Err("no answer; --yes asks nothing".into()),
        Ok(_) if line.trim().is_empty() => Ok(usual.to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(format!("standard input: {error}")),
    }
}

/// A link in place of the file is not followed.
fn write(path: &Path, text: &str, is_forced: bool) -> io::Result<()> {
    if is_forced {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.init-{}", std::process::id()));
        let written = create(&beside, text).and_then(|()| fs::rename(&beside, path));
        return written.inspect_err(|_| drop(fs::remove_file(&beside)));
    }
    create(path, text)
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Checks the file as `saker check` does, and says how to go on.
fn finish(path: &Path) -> ExitCode {
    let checked = match saker_config::load(path) {
        Ok(loaded) => {
            let mut all = loaded.warnings;
            all.extend(check::of_machine(&loaded.model));
            saker_config::Diagnostics(all)
        }
        Err(diagnostics) => diagnostics,
    };
    check::report(&checked);
    if checked.iter().any(saker_config::Diagnostic::is_error) {
        return ExitCode::from(CONFIGURATION_ERRORS);
    }
    let printed = output::print(format!(
        "{path} written. Start the server: saker run -c {path}\n",
        path = path.display()
    ));
    match printed == ExitCode::from(OK) {
        true => ExitCode::from(OK),
        false => ExitCode::from(CANNOT),
    }
}
