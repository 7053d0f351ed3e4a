#pragma once

#include <dlfcn.h>

namespace lockstep {

/// What the imitated devices have counted so far (tests/fake_gpu/runtime/counters.h); 0 on other devices.
inline long device_counter(const char* name) {
  using Counter = long (*)(const char*);
  const auto counter = reinterpret_cast<Counter>(::dlsym(RTLD_DEFAULT, "fake_gpu_counter"));
  return counter == nullptr ? 0 : counter(name);
}

/// What `body` adds to a counter.
template <typename Body>
long added_to(const char* name, const Body& body) {
  const long before = device_counter(name);
  body();
  return device_counter(name) - before;
}

}  // namespace lockstep
