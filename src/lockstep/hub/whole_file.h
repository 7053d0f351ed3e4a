#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/files/mapped_file.h"

namespace lockstep {

/// The bytes of a plain file, mapped.
class WholeFile {
 public:
  /// @throws Error  with path and cause, if it cannot be opened
  explicit WholeFile(const std::string& path);
  /// @throws Error  if the file was shortened
  std::string_view view() const;

 private:
  std::unique_ptr<MappedFile> map_;  // null if the file is empty
};

}  // namespace lockstep
