//! A way to the engine that can be cut: nothing gets through, and no end is told.
//!
//! Called by: `events`.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

#[derive(Default)]
struct Switch {
    is_cut: Mutex<bool>,
    healed: Condvar,
}

pub struct Relay(Arc<Switch>);

impl Relay {
    /// Takes connections at `from`, and passes them on.
    pub fn start(from: SocketAddr, to: SocketAddr) -> Relay {
        let listener = TcpListener::bind(from).unwrap();
        let switch = Arc::<Switch>::default();
        let relay = Relay(Arc::clone(&switch));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let switch = Arc::clone(&switch);
                thread::spawn(move || {
                    switch.wait();
                    // An engine that is down refuses, and so does the relay by the end.
                    let _ = switch.join(client, to);
                });
            }
        });
        relay
    }

    pub fn cut(&self) {
        *self.0.is_cut.lock().unwrap() = true;
    }

    pub fn heal(&self) {
        *self.0.is_cut.lock().unwrap() = false;
        self.0.healed.notify_all();
    }
}

impl Switch {
    fn wait(&self) {
        let mut is_cut = self.is_cut.lock().unwrap();
        while *is_cut {
            is_cut = self.healed.wait(is_cut).unwrap();
        }
    }

    fn join(self: Arc<Switch>, client: TcpStream, to: SocketAddr) -> io::Result<()> {
        let engine = TcpStream::connect(to)?;
        let (back, forth) = (engine.try_clone()?, client.try_clone()?);
        let other = Arc::clone(&self);
        thread::spawn(move || other.pass(back, forth));
        self.pass(client, engine);
        Ok(())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            self.wait();
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        self.wait();
        let _ = from.shutdown(std::net::Shutdown::Both);
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}
