//! Flow-control windows (RFC 9113 sections 5.2 and 6.9), of a stream or of the connection.
//!
//! A window that we send by may become negative when the peer lowers its
//! SETTINGS_INITIAL_WINDOW_SIZE (section 6.9.2), and so may one that we receive by while our own
//! SETTINGS is on its way. The windows that we give open again when half of one is used up, so that
//! a large transfer costs few WINDOW_UPDATE frames and a small one none.

/// Initial window of streams, until SETTINGS changes it, and of the connection (RFC 9113 section
/// 6.9.2).
pub(crate) const INITIAL_BYTES: u32 = 65_535;

/// A window that the peer gave us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow(i32);

/// The window would be above 2^31-1 (RFC 9113 section 6.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl SendWindow {
    /// `bytes` up to 2^31-1, which SETTINGS are checked for.
    pub fn new(bytes: u32) -> Self {
        SendWindow(i32::try_from(bytes).unwrap_or(i32::MAX))
    }

    /// Bytes that may be sent now.
    pub fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    pub fn is_open(self) -> bool {
        self.0 > 0
    }

    /// By WINDOW_UPDATE (positive) or by a change of SETTINGS_INITIAL_WINDOW_SIZE (either).
    pub fn adjust(&mut self, bytes: i64) -> Result<(), Overflow> {
        let sum = i64::from(self.0) + bytes;
        // Below is no limit in the standard; no honest sequence of settings gets there.
        self.0 = i32::try_from(sum.max(i64::from(i32::MIN))).map_err(|_| Overflow)?;
        Ok(())
    }

    /// `bytes` are at most [`SendWindow::available`].
    pub fn spend(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.0 = self.0.saturating_sub(bytes as i32);
    }
}

/// A window that we give the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveWindow {
    /// Bytes that the peer may still send.
    left: i32,
    /// Taken by the application, not yet told to the peer.
    released: u32,
}

impl ReceiveWindow {
    pub fn new(bytes: u32) -> Self {
        ReceiveWindow {
            left: i32::try_from(bytes).unwrap_or(i32::MAX),
            released: 0,
        }
    }

    /// Content has come; `false`: more than was allowed. `grace`: what the peer may send on top
    /// because it has not seen our SETTINGS_INITIAL_WINDOW_SIZE yet, which is lower than the one it
    /// started with.
    pub fn receive(&mut self, bytes: usize, grace: u32) -> bool {
        let fits = i64::from(self.left) + i64::from(grace) >= bytes as i64;
        if fits {
            self.left -= bytes as i32;
        }
        fits
    }

    /// The application took `bytes`. Returns by how much the peer's window has to be raised now, 0
    /// for not yet.
    pub fn release(&mut self, bytes: usize, full: u32) -> u32 {
        let outstanding =
            (i64::from(full) - i64::from(self.left) - i64::from(self.released)).max(0);
        debug_assert!(
            bytes as i64 <= outstanding,
            "released more than was received"
        );
        self.released += (bytes as i64).min(outstanding) as u32;
        if self.released == 0 || self.released < full / 2 {
            return 0;
        }
        let increment = std::mem::take(&mut self.released);
        self.left = self.left.saturating_add_unsigned(increment);
        increment
    }

    /// Returns true if so little is left that a peer with more to send will soon wait.
    pub fn is_nearly_used(self, full: u32) -> bool {
        i64::from(self.left) < i64::from(full / 8)
    }

    #[cfg(any(test, debug_assertions))]
    pub fn left(self) -> i32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_overflows_above_two_to_the_31_less_one() {
        let mut window = SendWindow::new(i32::MAX as u32 - 1);
        assert_eq!(window.adjust(1), Ok(()));
        assert_eq!(window.adjust(1), Err(Overflow));
        assert_eq!(window.available(), i32::MAX as usize);
    }

    #[test]
    fn a_send_window_may_become_negative_and_recovers() {
        let mut window = SendWindow::new(100);
        window.spend(90);
        assert_eq!(window.adjust(-50), Ok(()));
        assert!(!window.is_open() && window.available() == 0);
        assert_eq!(window.adjust(40), Ok(()));
        assert!(!window.is_open());
        assert_eq!(window.adjust(1), Ok(()));
        assert_eq!(window.available(), 1);
    }

    #[test]
    fn a_receive_window_is_exact() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100, 0) && window.receive(0, 0) && !window.receive(1, 0));
    }

    #[test]
    fn a_receive_window_opens_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(80, 0));
        assert_eq!(window.release(49, 100), 0);
        assert_eq!(window.release(1, 100), 50);
        assert_eq!(window.left(), 70);
        assert_eq!(window.release(30, 100), 0);
        assert!(window.receive(70, 0));
        assert_eq!(window.release(70, 100), 100);
        assert_eq!(window.left(), 100);
    }

    #[test]
    fn grace_may_be_used_and_is_owed_back() {
        let mut window = ReceiveWindow::new(10);
        assert!(!window.receive(16, 5) && window.receive(15, 5) && !window.receive(1, 0));
        assert_eq!(window.release(15, 10), 15);
        assert_eq!(window.left(), 10);
    }

    #[test]
    fn nothing_released_is_nothing_announced() {
        assert_eq!(ReceiveWindow::new(1).release(0, 1), 0);
        assert_eq!(ReceiveWindow::new(0).release(0, 0), 0);
        let mut one = ReceiveWindow::new(1);
        assert!(one.receive(1, 0));
        assert_eq!(one.release(1, 1), 1);
    }
}
