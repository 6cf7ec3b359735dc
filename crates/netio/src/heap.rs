//! Memory that was of use for a moment: the text of a policy of very many classes and what is made
//! of it on the way to a plan.

/// Gives memory that was freed back to the kernel; the allocator keeps it otherwise. To be called
/// after large work, not in the packet loop: it takes milliseconds.
pub fn give_back() {
    crate::sys::trim_heap();
}
