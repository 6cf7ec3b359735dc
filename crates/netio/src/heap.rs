//! Memory that was of use for a moment: the text of a policy of very many classes and what is made
//! of it on the way to a plan.
//!
//! Each thread has a heap of its own, and what the threads that read a policy took is freed when it
//! has been put together. The C library gives the end of a heap back by itself, but only from a
//! limit on, which it raises with each long block that is freed, to 64 MB; [`give_back`] reaches
//! gaps in all heaps, but the end of the first thread's alone. So with 100,000 classes 70 to 130 MB
//! stayed that nobody used.

/// The end of a heap that is kept. A smaller one costs more system calls and page faults.
const END: i32 = 1 << 20;
/// From so many bytes on a block is no part of a heap: as the C library has it when it has raised
/// its limits. Lower ones cost half as many page faults again in reading a policy.
const APART: i32 = 32 << 20;

/// Has heaps keep little at their ends, from now on. To be called when a program begins.
pub fn keep_little() {
    crate::sys::limit_ends_of_heaps(END, APART);
}

/// Gives memory that was freed back to the kernel; the allocator keeps it otherwise. To be called
/// after large work, not in the packet loop: it takes milliseconds.
pub fn give_back() {
    crate::sys::trim_heap();
}
