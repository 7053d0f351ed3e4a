#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/launch/process/text_tail.h"

namespace lockstep {

/// What a rank that failed wrote last, as far as it may tell why: at most `most` lines. Warnings and notes of LibTorch
/// and glog ("[W1122 10:00:00.1 Context.cpp:70] ...") are left out where anything else is there. What follows the last
/// "terminate called", which is the message of an exception that nobody caught, is kept before what came after it.
std::vector<std::string> last_words(const TextTail& tail, std::size_t most);

}  // namespace lockstep
