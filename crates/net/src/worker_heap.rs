//! The allocator of the process: worker threads keep the blocks that they free, and use them for
//! the next request.
//!
//! Called by: the binary, as its global allocator; worker threads, which turn it on for themselves.
//! Caveat: a request allocates a few dozen times, several of them blocks over 1 kB, which the
//! system's allocator splits and merges each time. A worker has the same sizes again and again, so
//! a list of free blocks per size replaces that. What a thread keeps is bounded
//! ([`KEPT_BYTES_MAX`]), and no block takes more memory than it did without the lists.
//! Out of scope: large blocks, memory of C libraries, and threads that are not workers; all of
//! these go to the system's allocator.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
};

/// Alignment of every block of the lists.
const ALIGN: usize = 16;
/// Blocks in lists of their own. Their sizes are those that glibc's allocator has anyway: 24, 40,
/// 56 bytes, and so on.
const SMALL_COUNT: usize = 64;
const SMALL_BYTES_MIN: usize = 24;
const SMALL_BYTES_MAX: usize = SMALL_BYTES_MIN + (SMALL_COUNT - 1) * ALIGN;
/// Longer blocks share these lists, each of which has blocks of one size at a time.
const LARGE_COUNT: usize = 64;
/// Blocks longer than this are the system's.
const LARGE_BYTES_MAX: usize = 16 << 10;
const LIST_COUNT: usize = SMALL_COUNT + LARGE_COUNT;

/// Free bytes that a thread keeps at most, and free blocks of one list.
pub const KEPT_BYTES_MAX: usize = 1 << 20;
const SMALL_KEPT_MAX: u32 = 64;
const LARGE_KEPT_MAX: u32 = 16;

/// The list of a block, and the block's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    list: usize,
    bytes: usize,
}

impl Place {
    /// `None`: the block is the system's.
    #[inline]
    const fn of(layout: Layout) -> Option<Place> {
        let bytes = layout.size();
        if layout.align() > ALIGN || bytes > LARGE_BYTES_MAX {
            None
        } else if bytes <= SMALL_BYTES_MIN {
            Some(Place {
                list: 0,
                bytes: SMALL_BYTES_MIN,
            })
        } else if bytes <= SMALL_BYTES_MAX {
            let list = (bytes - SMALL_BYTES_MIN).div_ceil(ALIGN);
            Some(Place {
                list,
                bytes: SMALL_BYTES_MIN + list * ALIGN,
            })
        } else {
            Some(Place {
                list: SMALL_COUNT + bytes / ALIGN % LARGE_COUNT,
                bytes,
            })
        }
    }

    /// The layout that the system knows the block by.
    #[inline]
    fn layout(self) -> Layout {
        // SAFETY: assumes a power of two as the alignment, and a size that does not overflow when
        // it is rounded up to it: the first is a constant, and no place has more than
        // `LARGE_BYTES_MAX`. Test: `places_cover_all_sizes`.
        unsafe { Layout::from_size_align_unchecked(self.bytes, ALIGN) }
    }

    const fn kept_max(self) -> u32 {
        if self.list < SMALL_COUNT {
            SMALL_KEPT_MAX
        } else {
            LARGE_KEPT_MAX
        }
    }
}

/// Free blocks of one size. A free block begins with the address of the next one.
struct List {
    first: Cell<*mut u8>,
    count: Cell<u32>,
    /// Size of all blocks of the list.
    bytes: Cell<usize>,
}

/// Free blocks of a thread.
struct FreeBlocks {
    is_on: Cell<bool>,
    kept_bytes: Cell<usize>,
    lists: [List; LIST_COUNT],
}

thread_local! {
    static FREE: FreeBlocks = const {
        FreeBlocks {
            is_on: Cell::new(false),
            kept_bytes: Cell::new(0),
            lists: [const {
                List {
                    first: Cell::new(ptr::null_mut()),
                    count: Cell::new(0),
                    bytes: Cell::new(0),
                }
            }; LIST_COUNT],
        }
    };
}

impl FreeBlocks {
    /// Takes a block off its list; null if there is none of its size.
    #[inline]
    fn take(&self, place: Place) -> *mut u8 {
        let list = &self.lists[place.list];
        if list.bytes.get() != place.bytes {
            return ptr::null_mut();
        }
        self.pop(list)
    }

    #[inline]
    fn pop(&self, list: &List) -> *mut u8 {
        let block = list.first.get();
        if !block.is_null() {
            // SAFETY: assumes that a listed block begins with the next one's address; `keep`, the
            // only function that lists blocks, writes it, and nobody else has the block. Test:
            // `a_block_is_used_again`.
            let next = unsafe { block.cast::<*mut u8>().read() };
            list.first.set(next);
            list.count.set(list.count.get() - 1);
            self.kept_bytes
                .set(self.kept_bytes.get() - list.bytes.get());
        }
        block
    }

    /// Lists a free block; false if the list is full, or the thread keeps none.
    ///
    /// # Safety
    /// The block must be of this place, and nothing may use it any more.
    #[inline]
    unsafe fn keep(&self, place: Place, block: *mut u8) -> bool {
        if !self.is_on.get() {
            return false;
        }
        let list = &self.lists[place.list];
        let kept_bytes = self.kept_bytes.get() + place.bytes;
        if list.bytes.get() != place.bytes {
            if !list.first.get().is_null() {
                // Another size has the list: it makes room, block by block.
                self.give_back(list);
                return false;
            }
            list.bytes.set(place.bytes);
        }
        if list.count.get() >= place.kept_max() || kept_bytes > KEPT_BYTES_MAX {
            return false;
        }
        // SAFETY: assumes that the block is free, has room for an address, and is aligned for one.
        // The caller guarantees the first; all blocks have at least `SMALL_BYTES_MIN` bytes and the
        // alignment `ALIGN`. Test: `a_block_is_used_again`.
        unsafe { block.cast::<*mut u8>().write(list.first.get()) };
        list.first.set(block);
        list.count.set(list.count.get() + 1);
        self.kept_bytes.set(kept_bytes);
        true
    }

    /// Gives one block of the list back to the system; false if there was none.
    fn give_back(&self, list: &List) -> bool {
        let place = Place {
            list: 0,
            bytes: list.bytes.get(),
        };
        let block = self.pop(list);
        if !block.is_null() {
            // SAFETY: assumes that the system allocated the block with the layout of its place:
            // `alloc` has no other source of listed blocks, and all blocks of a list have its size.
            // Test: `the_guard_gives_all_blocks_back`.
            unsafe { System.dealloc(block, place.layout()) };
        }
        !block.is_null()
    }
}

/// Keeps free blocks on this thread until the guard is dropped, which gives them all back.
#[must_use]
pub fn keep_blocks() -> KeepsBlocks {
    FREE.with(|free| free.is_on.set(true));
    KeepsBlocks(())
}

/// See [`keep_blocks`].
pub struct KeepsBlocks(());

impl Drop for KeepsBlocks {
    fn drop(&mut self) {
        FREE.with(|free| {
            free.is_on.set(false);
            for list in &free.lists {
                while free.give_back(list) {}
            }
        });
    }
}

/// The allocator.
pub struct WorkerHeap;

// SAFETY: assumes that a block has the same place when it is freed as when it was allocated:
// `Place::of` depends on the layout alone, which `GlobalAlloc`'s callers guarantee to be the same.
// Listed blocks have the size of their place, on every thread, so any thread may list blocks of any
// other. Blocks without a place are the system's with their own layout. A listed block has no user,
// because it was freed, and gets one user, because it is taken off the list. Test: all tests of this
// crate run on this allocator; `blocks_do_not_overlap`.
unsafe impl GlobalAlloc for WorkerHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(place) = Place::of(layout) else {
            // SAFETY: the caller's layout, as it is. Test: `large_and_aligned_blocks_grow`.
            return unsafe { System.alloc(layout) };
        };
        let block = FREE.with(|free| free.take(place));
        if !block.is_null() {
            return block;
        }
        // SAFETY: the size is not zero. Test: `a_block_is_used_again`.
        unsafe { System.alloc(place.layout()) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(place) = Place::of(layout) else {
            // SAFETY: `alloc` took it from the system with the same layout. Test:
            // `large_and_aligned_blocks_grow`.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: the caller frees the block, and its layout has this place. Test:
        // `a_block_is_used_again`.
        let is_kept = FREE.with(|free| unsafe { free.keep(place, block) });
        if !is_kept {
            // SAFETY: `alloc` took it from the system with the layout of its place. Test:
            // `a_block_is_used_again`.
            unsafe { System.dealloc(block, place.layout()) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Place::of(layout).is_none() {
            // SAFETY: the caller's layout, as it is. Test: `zeroed_blocks_are_zeroed`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's layout, as it is; a block that is not null has that size at least.
        // Test: `zeroed_blocks_are_zeroed`.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: assumes that `size`, rounded up to the alignment, does not overflow; the caller
        // guarantees it. Test: `large_and_aligned_blocks_grow`.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Place::of(layout), Place::of(wanted)) {
            // SAFETY: the block is the system's, before and after. Test:
            // `large_and_aligned_blocks_grow`.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (before, after) if before == after => block,
            // SAFETY: both blocks have the bytes that are copied, and differ; the old one is freed
            // with its own layout. Test: `blocks_grow_and_shrink`.
            _ => unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[global_allocator]
    static HEAP: WorkerHeap = WorkerHeap;

    fn kept_bytes() -> usize {
        FREE.with(|free| free.kept_bytes.get())
    }

    #[test]
    fn places_cover_all_sizes() {
        for size in 1..=LARGE_BYTES_MAX + 1 {
            let layout = Layout::from_size_align(size, 8).unwrap();
            let Some(place) = Place::of(layout) else {
                assert_eq!(size, LARGE_BYTES_MAX + 1);
                continue;
            };
            // No more than glibc has in such a block.
            let usable = (size + 8).next_multiple_of(ALIGN).max(32) - 8;
            assert!(place.list < LIST_COUNT);
            assert!((size..=usable).contains(&place.bytes), "{size}: {place:?}");
            assert_eq!(place.list < SMALL_COUNT, size <= SMALL_BYTES_MAX);
            assert_eq!(place.layout().size(), place.bytes);
        }
        let aligned = Layout::from_size_align(64, 2 * ALIGN).unwrap();
        assert_eq!(Place::of(aligned), None);
    }

    #[test]
    fn a_block_is_used_again() {
        for size in [1, 16, 24, 25, 700, 1032, 1033, 5000, LARGE_BYTES_MAX] {
            let _keeps = keep_blocks();
            let first = vec![1u8; size];
            let place = first.as_ptr() as usize;
            drop(first);
            let second = vec![2u8; size];
            assert_eq!(second.as_ptr() as usize, place, "{size}");
        }
        // Without the guard, blocks go back.
        drop(vec![1u8; 100]);
        assert_eq!(kept_bytes(), 0);
    }

    #[test]
    fn the_guard_gives_all_blocks_back() {
        let keeps = keep_blocks();
        let blocks: Vec<Vec<u8>> = (0..300).map(|_| vec![0; 48]).collect();
        drop(blocks);
        let place = Place::of(Layout::new::<[u8; 48]>()).unwrap();
        let count = FREE.with(|free| free.lists[place.list].count.get());
        assert_eq!(count, SMALL_KEPT_MAX, "no more than that is kept");
        drop(keeps);
        assert_eq!(kept_bytes(), 0);
    }

    #[test]
    fn what_a_thread_keeps_is_bounded() {
        let _keeps = keep_blocks();
        let long = |number: usize| vec![1u8; 12_000 + number * ALIGN];
        let blocks: Vec<Vec<u8>> = (0..400).map(|number| long(number % 64)).collect();
        drop(blocks);
        let kept = kept_bytes();
        assert!(
            (KEPT_BYTES_MAX / 2..=KEPT_BYTES_MAX).contains(&kept),
            "{kept}"
        );
    }

    #[test]
    fn a_list_goes_over_to_another_size() {
        let _keeps = keep_blocks();
        let (one, other) = (2000, 2000 + ALIGN * LARGE_COUNT);
        let place = |size| Place::of(Layout::from_size_align(size, 1).unwrap()).unwrap();
        assert_eq!(place(one).list, place(other).list);
        drop([vec![1u8; one], vec![1u8; one]]);
        for _ in 0..3 {
            drop(vec![2u8; other]);
        }
        let list_bytes = FREE.with(|free| free.lists[place(one).list].bytes.get());
        assert_eq!(list_bytes, other);
    }

    #[test]
    fn zeroed_blocks_are_zeroed() {
        let _keeps = keep_blocks();
        for size in [40, 3000, 100_000] {
            drop(vec![0xffu8; size]);
            assert!(vec![0u8; size].iter().all(|byte| *byte == 0), "{size}");
        }
    }

    #[test]
    fn large_and_aligned_blocks_grow() {
        #[repr(align(64))]
        #[derive(Clone, Copy, PartialEq, Debug)]
        struct Aligned(u8);
        let _keeps = keep_blocks();
        let mut all = Vec::new();
        for number in 0..2000usize {
            all.push(Aligned(number as u8));
            assert!((all.as_ptr() as usize).is_multiple_of(64));
        }
        assert!((0..2000).all(|number| all[number] == Aligned(number as u8)));
    }

    #[test]
    fn blocks_grow_and_shrink() {
        let _keeps = keep_blocks();
        let mut text = Vec::new();
        for number in 0..100_000u32 {
            text.extend_from_slice(&number.to_le_bytes());
        }
        let is_whole = |text: &[u8]| {
            let numbers = text.chunks_exact(4);
            numbers
                .zip(0u32..)
                .all(|(bytes, number)| bytes == number.to_le_bytes())
        };
        assert!(is_whole(&text));
        for length in [60_000, 16_000, 5_000, 1_000, 40, 4] {
            text.truncate(length);
            text.shrink_to_fit();
            assert!(is_whole(&text) && text.len() == length);
        }
    }

    #[test]
    fn a_block_may_be_freed_by_another_thread() {
        let _keeps = keep_blocks();
        let blocks: Vec<Vec<u8>> = (0..100).map(|size| vec![7; size * 40 + 1]).collect();
        let back = std::thread::spawn(move || {
            let _keeps = keep_blocks();
            assert!(blocks.iter().flatten().all(|byte| *byte == 7));
            drop(blocks);
            (0..100)
                .map(|size| vec![8u8; size * 40 + 1])
                .collect::<Vec<_>>()
        });
        let back = back.join().unwrap();
        assert!(back.iter().flatten().all(|byte| *byte == 8));
    }

    proptest! {
        /// Blocks of all sizes that live at the same time keep their content.
        #[test]
        fn blocks_do_not_overlap(steps in proptest::collection::vec((0usize..24, 1usize..20_000), 1..200)) {
            let _keeps = keep_blocks();
            let mut live: Vec<Vec<u8>> = vec![Vec::new(); 24];
            for (number, (slot, size)) in steps.into_iter().enumerate() {
                live[slot] = vec![number as u8; size];
                for block in &live {
                    prop_assert!(block.iter().all(|byte| *byte == block[0]));
                }
            }
        }
    }
}
