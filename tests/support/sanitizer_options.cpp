// What the sanitizers are told when a test is built with one; ASAN_OPTIONS and so on still win. Linked into every test,
// so that it holds for ctest and by hand. A suppression names a library that was built without the sanitizer, never
// code of ours, and says why.

extern "C" {

const char* __asan_default_options() {
  // Ranks that are processes are ended by signals in some tests, and must not spend their time on a leak check.
  return "detect_stack_use_after_return=1:strict_string_checks=1";
}

const char* __lsan_default_options() { return "print_suppressions=0"; }

const char* __lsan_default_suppressions() { return ""; }

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __tsan_default_options() {
  // LibTorch, OpenBLAS, libgomp and libgloo are not instrumented: what they read and write through memcpy and the like
  // is seen, what orders it is not. Tests fork from processes that have threads, as `spawn` does.
  return "ignore_noninstrumented_modules=1:die_after_fork=0:second_deadlock_stack=1:print_suppressions=0";
}

const char* __tsan_default_suppressions() { return ""; }

}  // extern "C"
