//! Values that features keep with an exchange between two phases, by their type.
//!
//! Called by: front ends (the state of their rules), the page cache, `abuse` and `modsecurity`.
//! Caveat: one value per type; a feature defines a type of its own and keeps it private.
//! Out of scope: anything that the pipeline itself reads, which is a field of the exchange.

use std::any::{Any, TypeId};

type Entry = (TypeId, Box<dyn Any>);

/// At most one value of each type. The first one needs no memory besides its own.
#[derive(Debug, Default)]
pub struct Extensions {
    first: Option<Entry>,
    others: Vec<Entry>,
}

impl Extensions {
    /// The value of type `T`, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let (_, value) = self
            .first
            .iter()
            .chain(&self.others)
            .find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// The value of type `T`, to be changed.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let (_, value) = self
            .first
            .iter_mut()
            .chain(&mut self.others)
            .find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_mut()
    }

    /// The value of type `T`; inserts the default if there is none.
    pub fn get_or_default<T: Default + 'static>(&mut self) -> &mut T {
        if self.get::<T>().is_none() {
            self.insert(T::default());
        }
        // Never panics: the lines above have put one there. The borrow checker lets no borrow out
        // of the test for it.
        #[expect(clippy::expect_used, reason = "see above")]
        self.get_mut().expect("inserted above")
    }

    /// Puts `value` in the place of the one of its type.
    pub fn insert<T: 'static>(&mut self, value: T) {
        match self.get_mut() {
            Some(old) => *old = value,
            None => {
                let entry = (TypeId::of::<T>(), Box::new(value) as Box<dyn Any>);
                match &self.first {
                    None => self.first = Some(entry),
                    Some(_) => self.others.push(entry),
                }
            }
        }
    }

    /// Takes the value of type `T` out.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let is_wanted = |entry: &Entry| entry.0 == TypeId::of::<T>();
        let entry = match self.first.take_if(|entry| is_wanted(entry)) {
            Some(entry) => entry,
            None => {
                let at = self.others.iter().position(is_wanted)?;
                self.others.swap_remove(at)
            }
        };
        entry.1.downcast().ok().map(|value| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_per_type() {
        let mut all = Extensions::default();
        assert_eq!(all.get::<u8>(), None);
        assert_eq!(all.remove::<u8>(), None);
        all.insert(1u8);
        all.insert("text");
        all.insert(2u8);
        assert_eq!(
            (all.get::<u8>(), all.get::<&str>()),
            (Some(&2), Some(&"text"))
        );
        assert_eq!(all.remove::<u8>(), Some(2));
        assert_eq!((all.get::<u8>(), all.get::<&str>()), (None, Some(&"text")));
        *all.get_or_default::<u64>() += 7;
        *all.get_or_default::<u64>() += 1;
        assert_eq!(
            (all.remove::<u64>(), all.remove::<&str>()),
            (Some(8), Some("text"))
        );
    }
}
