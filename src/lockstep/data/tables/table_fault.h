#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

/// A fault in the bytes of a file of columns, or a part of the format that is not read. The readers of a file catch it,
/// and throw an Error with the path and the place.
class TableFault : public std::runtime_error {
 public:
  static constexpr const char* kDamaged = "the file is damaged: write it again, or fetch it again";

  explicit TableFault(const std::string& what, std::string fix = kDamaged)
      : std::runtime_error(what), fix_(std::move(fix)) {}
  const std::string& fix() const noexcept { return fix_; }

 private:
  std::string fix_;
};

}  // namespace lockstep
