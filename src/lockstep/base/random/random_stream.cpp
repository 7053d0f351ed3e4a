#include "lockstep/base/random/random_stream.h"

namespace lockstep {
namespace {

thread_local RandomStream* thread_stream = nullptr;

}  // namespace

RandomStream* current_random_stream() noexcept { return thread_stream; }

RandomStreamGuard::RandomStreamGuard(RandomStream* stream) noexcept : before_(thread_stream) { thread_stream = stream; }

RandomStreamGuard::~RandomStreamGuard() { thread_stream = before_; }

}  // namespace lockstep
