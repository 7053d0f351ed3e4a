#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// The bytes of a pickle, taken from front to back, and the place of errors in them.
class PickleBytes {
 public:
  /// Both must outlive this object. @param path  named in errors
  PickleBytes(std::string_view bytes, std::size_t begin, const std::string& path)
      : bytes_(bytes), at_(begin), path_(path) {}

  /// The next opcode. Errors name its place until the one after it is taken.
  unsigned char take_opcode() {
    opcode_at_ = at_;
    return static_cast<unsigned char>(take(1)[0]);
  }
  /// @throws Error  if fewer bytes are left; so do the functions below
  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) {
      throw Error("the pickle ends too early", fmt::format("{}, byte {} of the pickle", path_, opcode_at_),
                  "copy or download the file again");
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  template <typename Number>
  Number take_number() {
    Number number;
    std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
    return number;
  }
  /// The bytes before the next line end, which is taken too.
  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) take(bytes_.size() - at_ + 1);
    std::string line(take(end - at_));
    take(1);
    return line;
  }
  /// The place behind what was taken.
  std::size_t at() const { return at_; }

  /// @throws Error  that says what the pickle does, and that weights do not need it
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(
        problem + ", which weights do not need; nothing of the file was run",
        fmt::format("{}, byte {} of the pickle", path_, opcode_at_),
        "use a file that torch.save(model.state_dict(), path) wrote; convert others in Python if you trust them");
  }
  void require(bool holds, const char* problem) const {
    if (!holds) refuse(problem);
  }

 private:
  std::string_view bytes_;
  std::size_t at_;
  const std::string& path_;
  std::size_t opcode_at_ = 0;
};

}  // namespace lockstep
