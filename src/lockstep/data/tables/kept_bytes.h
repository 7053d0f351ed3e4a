#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Bytes, and what keeps them; null: they belong to the mapped file.
struct KeptBytes {
  std::string_view view;
  std::shared_ptr<const std::string> kept;
};

}  // namespace lockstep
