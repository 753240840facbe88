//! Values that features attach to an exchange, by type.
//!
//! Called by: front ends (the state of their rules), the page cache, `abuse`, and `modsecurity`.
//! Caveat: one value per type; a feature defines its own private type.
//! Out of scope: state that the pipeline itself reads, which is a field of the exchange.

use std::any::{Any, TypeId};

type Entry = (TypeId, Box<dyn Any>);

/// A map with at most one value per type. The first one needs no additional memory.
#[derive(Debug, Default)]
pub struct Extensions {
    first: Option<Entry>,
    others: Vec<Entry>,
}

impl Extensions {
    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Returns the value of type `T`, if any.
    #[inline]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        match &self.first {
            Some((first, value)) if *first == id => value.downcast_ref(),
            _ => {
                let (_, value) = self.others.iter().find(|(other, _)| *other == id)?;
                value.downcast_ref()
            }
        }
    }

    /// Returns the value of type `T` for modification, if any.
    #[inline]
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        match &mut self.first {
            Some((first, value)) if *first == id => value.downcast_mut(),
            _ => {
                let mut others = self.others.iter_mut();
                let (_, value) = others.find(|(other, _)| *other == id)?;
                value.downcast_mut()
            }
        }
    }

    /// Returns the value of type `T`; inserts the default if there is none.
    #[inline]
    pub fn get_or_default<T: Default + 'static>(&mut self) -> &mut T {
        let is_first = matches!(&self.first, Some((first, _)) if *first == TypeId::of::<T>());
        if !is_first && self.get::<T>().is_none() {
            self.insert(T::default());
        }
        // Never panics: the lines above have inserted one. The borrow checker does not allow
        // returning the borrow from the test.
        #[expect(clippy::expect_used, reason = "see above")]
        self.get_mut().expect("inserted above")
    }

    /// Inserts `value`, replacing the previous one of its type.
    pub fn insert<T: 'static>(&mut self, value: T) {
        match self.get_mut() {
            Some(old) => *old = value,
            None => self.add((TypeId::of::<T>(), Box::new(value))),
        }
    }

    /// [`Extensions::insert`] without moving the value.
    pub fn insert_boxed<T: 'static>(&mut self, value: Box<T>) {
        let id = TypeId::of::<T>();
        let mut all = self.first.iter_mut().chain(&mut self.others);
        match all.find(|(known, _)| *known == id) {
            Some((_, old)) => *old = value,
            None => self.add((id, value)),
        }
    }

    fn add(&mut self, entry: Entry) {
        match &self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push(entry),
        }
    }

    /// Removes and returns the value of type `T`.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        self.remove_boxed().map(|value| *value)
    }

    /// [`Extensions::remove`] without moving the value.
    pub fn remove_boxed<T: 'static>(&mut self) -> Option<Box<T>> {
        let is_wanted = |entry: &Entry| entry.0 == TypeId::of::<T>();
        let entry = match self.first.take_if(|entry| is_wanted(entry)) {
            Some(entry) => entry,
            None => {
                let at = self.others.iter().position(is_wanted)?;
                self.others.swap_remove(at)
            }
        };
        entry.1.downcast().ok()
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
        all.insert_boxed(Box::new(3u16));
        all.insert_boxed(Box::new(4u16));
        assert_eq!((all.remove::<u16>(), all.len()), (Some(4), 0));
    }
}
