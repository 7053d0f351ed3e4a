#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/launch/process/text_tail.h"

namespace lockstep {

/// The last output of a failed rank that may explain the failure: at most `most` lines. Warnings and notes of LibTorch
/// and glog ("[W1122 10:00:00.1 Context.cpp:70] ...") are left out if there is anything else. The text after the last
/// "terminate called", which is the message of an uncaught exception, takes precedence over later lines.
std::vector<std::string> last_words(const TextTail& tail, std::size_t most);

}  // namespace lockstep
