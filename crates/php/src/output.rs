//! What PHP says on its standard error, line by line into the error log.

use crate::process::Errors;
use saker_telemetry::{error_log, message};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// A longer line is cut into several.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// Until the last process of the PHP has closed it.
pub async fn log(stderr: Errors, name: Arc<str>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = line.trim_ascii_end();
                if !text.is_empty() {
                    error_log::log(&message::PROGRAM_SAID, format_args!("{name}: {}", String::from_utf8_lossy(text)));
                }
            }
        }
    }
}
