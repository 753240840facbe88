//! The binary of a package: stripped, its debug symbols apart, and the libraries that it needs.
//!
//! Called by: `deb`, `rpm`, and `image`.
//! Caveat: a library that is not in the list below has to be put there, with its package.

use super::options::{run, wrong};
use std::{fs, io, path::Path, process::Command};

/// Library and package (Debian 12 and later).
const LIBRARIES: [(&str, &str); 5] = [
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("ld-linux-x86-64.so.2", "libc6"),
    ("ld-linux-aarch64.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// In front of a build id: lengths of its owner's name and of the id, the kind, the name.
const ID_NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
const ID_BYTES: usize = 20;

/// Writes the binary without symbols. Its build id is made of what is in it: the linker's is also made of names of
/// symbols, some of which differ from folder to folder (the compiler numbers parts of a crate by the crate's
/// source, and templates have their paths in it). Returns the id, if there is one.
pub fn strip(from: &Path, to: &Path) -> io::Result<Option<String>> {
    let mut strip = tool_for(from, "strip")?;
    strip.args(["--strip-unneeded", "--remove-section=.comment", "-o"]);
    run(strip.arg(to).arg(from))?;
    if !set_id(to, [0; ID_BYTES])? {
        return Ok(None);
    }
    let sum = run(Command::new("sha256sum").arg(to))?;
    let text = String::from_utf8_lossy(&sum[..2 * ID_BYTES]).into_owned();
    set_id(to, id_of(&text)?)?;
    Ok(Some(text))
}

/// Returns the bytes of an id that is written in hexadecimal digits.
fn id_of(text: &str) -> io::Result<[u8; ID_BYTES]> {
    let mut id = [0; ID_BYTES];
    for (at, byte) in id.iter_mut().enumerate() {
        let digits = text.get(2 * at..2 * at + 2);
        let parsed = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        *byte = parsed.ok_or_else(|| wrong(format!("{text}: no build id")))?;
    }
    Ok(id)
}

/// Replaces the build id of a binary. Returns false if it has none.
fn set_id(binary: &Path, id: [u8; ID_BYTES]) -> io::Result<bool> {
    let mut bytes = fs::read(binary)?;
    let at = bytes
        .windows(ID_NOTE.len())
        .position(|note| note == ID_NOTE);
    let place = at.and_then(|at| bytes.get_mut(at + ID_NOTE.len()..)?.first_chunk_mut());
    let Some(place) = place else {
        return Ok(false);
    };
    *place = id;
    fs::write(binary, bytes)?;
    Ok(true)
}

/// The program of binutils for the binary's machine: this machine's own, or the one of Debian's cross compilers.
fn tool_for(binary: &Path, name: &str) -> io::Result<Command> {
    let machine = machine_of(architecture(binary)?);
    Ok(match machine == std::env::consts::ARCH {
        true => Command::new(name),
        false => Command::new(format!("{machine}-linux-gnu-{name}")),
    })
}

/// The binary as a command; one for another machine is emulated (qemu-user), with the libraries of Debian's cross
/// compilers.
pub fn command(binary: &Path) -> io::Result<Command> {
    let machine = machine_of(architecture(binary)?);
    if machine == std::env::consts::ARCH {
        return Ok(Command::new(binary));
    }
    let mut emulated = Command::new(format!("qemu-{machine}"));
    if let Some(loader) = loader(binary)? {
        let libraries = Path::new("/usr").join(format!("{machine}-linux-gnu/lib"));
        let name = Path::new(&loader).file_name().unwrap_or_default();
        emulated.arg(libraries.join(name));
        emulated.arg("--library-path").arg(libraries);
    }
    emulated.arg(binary);
    Ok(emulated)
}

/// The kernel's word for Debian's.
pub fn machine_of(architecture: &str) -> &str {
    match architecture {
        "amd64" => "x86_64",
        _ => "aarch64",
    }
}

/// Its debug symbols alone, where debuggers look for them: the path below `/usr/lib/debug`.
pub fn debug_symbols(from: &Path, folder: &Path) -> io::Result<Option<String>> {
    fs::create_dir_all(folder)?;
    let stripped = folder.join("stripped");
    let id = strip(from, &stripped)?;
    fs::remove_file(stripped)?;
    let Some(id) = id else {
        return Ok(None);
    };
    let (first, rest) = id.split_at(2);
    let path = format!(".build-id/{first}/{rest}.debug");
    let to = folder.join(&path);
    fs::create_dir_all(to.parent().unwrap_or(folder))?;
    let mut objcopy = tool_for(from, "objcopy")?;
    objcopy.arg("--only-keep-debug");
    run(objcopy.arg(from).arg(&to))?;
    set_id(&to, id_of(&id)?)?;
    Ok(Some(path))
}

/// The packages that the binary needs, as `Depends` has them.
pub fn dependencies(binary: &Path) -> io::Result<String> {
    let mut packages = needed(binary)?
        .iter()
        .map(|library| package_of(library))
        .collect::<io::Result<Vec<_>>>()?;
    packages.sort_unstable();
    packages.dedup();
    let glibc = newest_glibc(binary)?;
    let each = packages.into_iter().map(|package| match package {
        "libc6" => format!("libc6 (>= {}.{})", glibc.0, glibc.1),
        other => other.to_owned(),
    });
    Ok(each.collect::<Vec<_>>().join(", "))
}

fn package_of(library: &str) -> io::Result<&'static str> {
    let known = LIBRARIES.iter().find(|(name, _)| *name == library);
    known
        .map(|(_, package)| *package)
        .ok_or_else(|| wrong(format!("{library}: no Debian package is known for it")))
}

/// Names of the libraries that the loader loads with it.
pub fn needed(binary: &Path) -> io::Result<Vec<String>> {
    let dynamic = run(Command::new("readelf").arg("-dW").arg(binary))?;
    let text = String::from_utf8_lossy(&dynamic).into_owned();
    let names = text
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()));
    Ok(names.collect())
}

/// The loader by its path; none for a static binary.
pub fn loader(binary: &Path) -> io::Result<Option<String>> {
    let segments = run(Command::new("readelf").arg("-lW").arg(binary))?;
    let text = String::from_utf8_lossy(&segments);
    let path = text.split_once("program interpreter: ");
    Ok(path.and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned())))
}

pub fn newest_glibc(binary: &Path) -> io::Result<(u32, u32)> {
    let versions = run(Command::new("readelf").arg("-VW").arg(binary))?;
    let text = String::from_utf8_lossy(&versions).into_owned();
    let found = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest
            .split(|c: char| c != '.' && !c.is_ascii_digit())
            .next()?;
        let mut numbers = version.split('.').map_while(|part| part.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    });
    Ok(found.max().unwrap_or((2, 17)))
}

/// Debian's word for the machine that the binary is for.
pub fn architecture(binary: &Path) -> io::Result<&'static str> {
    let head = run(Command::new("readelf").arg("-hW").arg(binary))?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let machine = text.lines().find(|line| line.contains("Machine:"));
    match machine {
        Some(line) if line.contains("X86-64") => Ok("amd64"),
        Some(line) if line.contains("AArch64") => Ok("arm64"),
        _ => Err(wrong(format!(
            "{}: neither x86-64 nor AArch64",
            binary.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn every_library_has_its_package() {
        assert_eq!(package_of("libgcc_s.so.1").unwrap(), "libgcc-s1");
        assert!(package_of("libfoo.so.1").is_err());
    }

    #[test]
    fn ids_are_those_of_the_content() {
        let folder = TempDir::new("ids").unwrap();
        let (one, other) = (folder.join("one"), folder.join("other"));
        let own = std::env::current_exe().unwrap();
        fs::copy(&own, &one).unwrap();
        assert!(set_id(&one, [7; ID_BYTES]).unwrap());
        let stripped = [folder.join("stripped-own"), folder.join("stripped-one")];
        let ids: Vec<_> = [&own, &one]
            .into_iter()
            .zip(&stripped)
            .map(|(from, to)| strip(from, to).unwrap().expect("an id"))
            .collect();
        assert_eq!(ids[0], ids[1]);
        assert!(fs::read(&stripped[0]).unwrap() == fs::read(&stripped[1]).unwrap());
        let notes = run(Command::new("readelf").arg("-n").arg(&stripped[0])).unwrap();
        assert!(String::from_utf8_lossy(&notes).contains(&ids[0]));
        let path = debug_symbols(&own, &folder).unwrap().expect("symbols");
        assert_eq!(
            path,
            format!(".build-id/{}/{}.debug", &ids[0][..2], &ids[0][2..])
        );
        let notes = run(Command::new("readelf").arg("-n").arg(folder.join(path))).unwrap();
        assert!(String::from_utf8_lossy(&notes).contains(&ids[0]));
        fs::write(&other, "no binary").unwrap();
        assert!(!set_id(&other, [7; ID_BYTES]).unwrap());
    }

    /// This test's own program, which is linked as Saker is.
    #[test]
    fn of_a_real_program() {
        let own = std::env::current_exe().unwrap();
        let depends = dependencies(&own).unwrap();
        assert!(depends.contains("libc6 (>= 2."), "{depends}");
        assert_eq!(
            machine_of(architecture(&own).unwrap()),
            std::env::consts::ARCH
        );
        let loader = loader(&own).unwrap().expect("linked to a libc");
        assert!(loader.starts_with("/lib"), "{loader}");
    }
}
