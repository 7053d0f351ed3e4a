#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/net/store.h"

namespace lockstep {

/// The fields of a store's answers.
std::string text_field(std::string_view text);
std::string number_field(std::int64_t number);
std::string flag_field(bool flag);
/// 1 and the text, or 0 if `text` is null.
std::string optional_field(const std::string* text);
std::string lost_field(const std::vector<LostRank>& lost);

}  // namespace lockstep
