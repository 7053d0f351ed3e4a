#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/data/tables/arrow/flat_table.h"

namespace lockstep {

/// A piece of a stream of Arrow: what it is, and its data.
struct ArrowMessage {
  enum class Kind { None, Schema, Dictionary, Rows };
  Kind kind = Kind::None;
  FlatTable content;      ///< the table Schema, DictionaryBatch or RecordBatch
  std::string_view body;  ///< the buffers
};

/// Goes through the messages of a stream, or of a file, which is a stream with a table of contents behind it:
/// arrow.apache.org/docs/format/Columnar.html
class ArrowMessages {
 public:
  /// @throws TableFault  if the bytes do not begin as a stream or a file of Arrow
  explicit ArrowMessages(std::string_view file);

  /// The next message; nothing at the end. @throws TableFault  if it is cut or damaged
  std::optional<ArrowMessage> next();

 private:
  std::string_view left_;
};

}  // namespace lockstep
