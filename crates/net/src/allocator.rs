//! Memory: the C library's allocator, and in front of it the freed blocks of 1 to 8 KiB that a worker
//! keeps for its next requests.
//!
//! The C library keeps smaller blocks for each thread. It merges larger ones with their neighbors
//! whenever they are freed, and cuts them out again; a request that is passed on has some ten of
//! them (futures, buffers), and a tenth of its instructions went there.
//!
//! Called by: the binary, as its global allocator; workers, which keep blocks from
//! [`KeptBlocks::begin`] on.
//! Caveat: sizes are rounded up on all threads, since a block may be freed on another one than it
//! was made on.
//! Out of scope: memory for its own sake (arenas): blocks are kept, never made.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::UnsafeCell,
    marker::PhantomData,
    ptr,
};

/// Sizes beyond this one are kept, up to and with [`BYTES_MAX`].
const BYTES_ABOVE: usize = 1024;
const BYTES_MAX: usize = 8192;
/// Sizes are multiples of this one.
const STEP: usize = 64;
const SIZES: usize = (BYTES_MAX - BYTES_ABOVE) / STEP;
/// Blocks of one size that are kept.
const BLOCKS: usize = 8;
/// Bytes that a thread keeps in all.
const KEPT_BYTES_MAX: usize = 128 << 10;
/// Alignment that the C library gives to every block.
const ALIGNMENT_MAX: usize = 16;

/// The allocator of the binary.
pub struct Allocator;

/// Freed blocks of a thread.
struct Blocks {
    /// The first `counts` of each size are there.
    blocks: [[*mut u8; BLOCKS]; SIZES],
    counts: [u8; SIZES],
    bytes: usize,
    /// The size that gives way next, where there are too many bytes.
    oldest: usize,
    is_on: bool,
}

thread_local! {
    // Nothing is done for it when the thread ends: the guard has given the blocks back by then.
    static BLOCKS_OF_THREAD: UnsafeCell<Blocks> = const {
        UnsafeCell::new(Blocks {
            blocks: [[ptr::null_mut(); BLOCKS]; SIZES],
            counts: [0; SIZES],
            bytes: 0,
            oldest: 0,
            is_on: false,
        })
    };
}

/// The size of a block in steps beyond the smallest, if blocks of this layout are kept.
#[inline(always)]
fn step(layout: Layout) -> Option<usize> {
    let is_kept = layout.size() > BYTES_ABOVE
        && layout.size() <= BYTES_MAX
        && layout.align() <= ALIGNMENT_MAX;
    is_kept.then(|| (layout.size() - BYTES_ABOVE - 1) / STEP)
}

const fn bytes_of(step: usize) -> usize {
    BYTES_ABOVE + (step + 1) * STEP
}

/// The layout that the C library is asked for.
#[inline(always)]
fn rounded(layout: Layout) -> Layout {
    match step(layout) {
        // Multiples of an alignment of 16 at most, far below what a layout may have.
        Some(step) => Layout::from_size_align(bytes_of(step), layout.align()).unwrap_or(layout),
        None => layout,
    }
}

impl Blocks {
    #[inline(always)]
    fn take(&mut self, step: usize) -> Option<*mut u8> {
        let left = self.counts[step].checked_sub(1)?;
        self.counts[step] = left;
        self.bytes -= bytes_of(step);
        Some(self.blocks[step][usize::from(left)])
    }

    /// Keeps a block. Returns false if it is to be freed.
    #[inline(always)]
    fn keep(&mut self, step: usize, block: *mut u8) -> bool {
        let count = usize::from(self.counts[step]);
        if !self.is_on || count == BLOCKS {
            return false;
        }
        if self.bytes >= KEPT_BYTES_MAX {
            self.give_way();
        }
        self.blocks[step][count] = block;
        self.counts[step] += 1;
        self.bytes += bytes_of(step);
        true
    }

    /// Frees the blocks of the next size that has some: sizes that are asked for no more must not
    /// take the place of others for good.
    #[cold]
    fn give_way(&mut self) {
        for _ in 0..SIZES {
            let step = self.oldest;
            self.oldest = (step + 1) % SIZES;
            if self.counts[step] > 0 {
                self.free(step);
                return;
            }
        }
    }

    fn free(&mut self, step: usize) {
        while let Some(block) = self.take(step) {
            // SAFETY: `keep` got the block from `dealloc`, whose caller guarantees that it came from
            // this allocator and is used no more; it was made by `System` with this size, or by
            // `realloc` with it, and an alignment that makes no difference to the C library's `free`.
            // Tests: `blocks_are_used_again`, `old_sizes_give_way`.
            #[allow(unsafe_code)]
            unsafe {
                System.dealloc(
                    block,
                    Layout::from_size_align_unchecked(bytes_of(step), ALIGNMENT_MAX),
                );
            }
        }
    }
}

/// Calls a function with the blocks of the thread.
#[inline(always)]
fn with_blocks<R>(work: impl FnOnce(&mut Blocks) -> R) -> R {
    BLOCKS_OF_THREAD.with(|blocks| {
        // SAFETY: the value is this thread's, this function is the only way to it, and `work` is one
        // of the methods above, which neither allocate through this allocator nor call this function.
        // Tests: all of this file.
        #[allow(unsafe_code)]
        let blocks = unsafe { &mut *blocks.get() };
        work(blocks)
    })
}

// SAFETY: every block comes from `System` with at least the size of the layout and its alignment (kept
// blocks are given out for sizes of their own step only, and for alignments that the C library gives to
// every block), and is given out again only after it was freed. Tests: `blocks_are_used_again`,
// `growth_keeps_the_content`, `threads_share_no_blocks`, and every test of the binary.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(step) = step(layout)
            && let Some(block) = with_blocks(|blocks| blocks.take(step))
        {
            return block;
        }
        // SAFETY: the caller's layout is not of size 0, and rounding makes none smaller.
        unsafe { System.alloc(rounded(layout)) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(step) = step(layout)
            && with_blocks(|blocks| blocks.keep(step, block))
        {
            return;
        }
        // SAFETY: the caller guarantees that the block came from here for this layout, so that
        // `System` made it for the rounded one.
        unsafe { System.dealloc(block, rounded(layout)) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`. The C library knows of pages that are zero already.
        unsafe { System.alloc_zeroed(rounded(layout)) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // The caller guarantees that the size does not overflow with this alignment.
        let Ok(new) = Layout::from_size_align(new_size, layout.align()) else {
            return ptr::null_mut();
        };
        let wanted = step(new);
        if wanted.is_some() && wanted == step(layout) {
            return block;
        }
        if let Some(step) = wanted
            && let Some(longer) = with_blocks(|blocks| blocks.take(step))
        {
            // SAFETY: both blocks have at least the smaller of the two sizes, and are different ones,
            // because a kept block was freed before. The old one is freed by its own layout.
            unsafe {
                ptr::copy_nonoverlapping(block, longer, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            return longer;
        }
        // SAFETY: the caller guarantees that the block came from here for this layout.
        unsafe { System.realloc(block, rounded(layout), rounded(new).size()) }
    }
}

/// While it lives, the thread keeps freed blocks; then it frees them.
pub struct KeptBlocks(PhantomData<*mut u8>);

impl KeptBlocks {
    #[must_use]
    pub fn begin() -> KeptBlocks {
        with_blocks(|blocks| blocks.is_on = true);
        KeptBlocks(PhantomData)
    }
}

impl Drop for KeptBlocks {
    fn drop(&mut self) {
        with_blocks(|blocks| {
            blocks.is_on = false;
            (0..SIZES).for_each(|step| blocks.free(step));
        });
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::thread;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).unwrap()
    }

    fn make(bytes: usize) -> *mut u8 {
        // SAFETY: the size is not 0.
        let block = unsafe { Allocator.alloc(layout(bytes)) };
        assert!(!block.is_null());
        block
    }

    fn free(block: *mut u8, bytes: usize) {
        // SAFETY: callers give back what `make` gave them, once, with its size.
        unsafe { Allocator.dealloc(block, layout(bytes)) }
    }

    fn kept_bytes() -> usize {
        with_blocks(|blocks| blocks.bytes)
    }

    #[test]
    fn blocks_are_used_again() {
        let guard = KeptBlocks::begin();
        for (bytes, is_kept) in [(1024, false), (1025, true), (8192, true), (8193, false)] {
            let block = make(bytes);
            free(block, bytes);
            assert_eq!(kept_bytes() > 0, is_kept, "{bytes}");
            let again = make(bytes);
            assert!(!is_kept || again == block, "{bytes}");
            assert_eq!(kept_bytes(), 0, "{bytes}");
            free(again, bytes);
            with_blocks(|blocks| (0..SIZES).for_each(|step| blocks.free(step)));
        }
        let one = make(1100);
        free(one, 1100);
        // Another size of the same step, and one of the next.
        assert_ne!(make(1200), one);
        assert_eq!(make(1150), one);
        free(one, 1150);
        drop(guard);
        assert_eq!(kept_bytes(), 0);
        let block = make(2000);
        free(block, 2000);
        assert_eq!(kept_bytes(), 0);
    }

    #[test]
    fn old_sizes_give_way() {
        let _guard = KeptBlocks::begin();
        for bytes in (1088..=8192).step_by(64) {
            let blocks: Vec<*mut u8> = (0..10).map(|_| make(bytes)).collect();
            blocks.iter().for_each(|block| free(*block, bytes));
            assert!(kept_bytes() <= KEPT_BYTES_MAX + BYTES_MAX);
        }
        // The last one is there nevertheless.
        assert!(with_blocks(|blocks| blocks.counts[SIZES - 1]) > 0);
    }

    #[test]
    fn growth_keeps_the_content() {
        let _guard = KeptBlocks::begin();
        let sizes = [1000, 1040, 1080, 2048, 2049, 8192, 9000, 4000, 1025, 64];
        // Once with kept blocks of all sizes, once without.
        for has_blocks in [false, true] {
            if has_blocks {
                let blocks = sizes.map(|bytes| (make(bytes), bytes));
                blocks
                    .iter()
                    .for_each(|(block, bytes)| free(*block, *bytes));
            }
            let (mut block, mut bytes) = (make(sizes[0]), sizes[0]);
            // SAFETY: the block has that many bytes.
            unsafe { block.write_bytes(7, 64) };
            for new in sizes {
                // SAFETY: the block came from here with this size.
                block = unsafe { Allocator.realloc(block, layout(bytes), new) };
                bytes = new;
                // SAFETY: all sizes are at least 64.
                let content = unsafe { std::slice::from_raw_parts(block, 64) };
                assert_eq!(content, [7; 64], "{new}");
            }
            free(block, bytes);
        }
    }

    #[test]
    fn zeroed_blocks_are_zeroed() {
        let _guard = KeptBlocks::begin();
        let block = make(3000);
        // SAFETY: the block has that many bytes.
        unsafe { block.write_bytes(7, 3000) };
        free(block, 3000);
        // SAFETY: the size is not 0, and zeroed bytes may be read.
        let zeroed = unsafe {
            let block = Allocator.alloc_zeroed(layout(3000));
            std::slice::from_raw_parts(block, 3000)
        };
        assert!(zeroed.iter().all(|byte| *byte == 0));
        free(zeroed.as_ptr().cast_mut(), 3000);
    }

    #[test]
    fn threads_share_no_blocks() {
        let _guard = KeptBlocks::begin();
        let block = make(5000) as usize;
        let freed_elsewhere = thread::spawn(move || {
            let _guard = KeptBlocks::begin();
            free(block as *mut u8, 5000);
            kept_bytes()
        });
        assert!(freed_elsewhere.join().unwrap() >= 5000);
        assert_eq!(kept_bytes(), 0);
        // A thread without a guard keeps none.
        thread::spawn(|| {
            free(make(5000), 5000);
            assert_eq!(kept_bytes(), 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn large_alignments_are_the_system_s() {
        let _guard = KeptBlocks::begin();
        let wide = Layout::from_size_align(4096, 4096).unwrap();
        // SAFETY: the size is not 0, and the block is freed with its own layout.
        unsafe {
            let block = Allocator.alloc(wide);
            assert_eq!(block as usize % 4096, 0);
            Allocator.dealloc(block, wide);
        }
        assert_eq!(kept_bytes(), 0);
    }
}
