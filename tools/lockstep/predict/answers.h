// Where the answers of `lockstep predict` go.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/files/atomic_file.h"
#include "tools/lockstep/predict/prediction.h"

namespace lockstep {

/// Takes the answers one after the other: on a stream, as lines for people or as JSON; or in the file of
/// --output-file, which appears when it is complete, as CSV or as JSON Lines.
///
/// A table has a column for each field of the first answer. The scores of labels have a column each ("scores.LABEL"),
/// and a list is one field of JSON.
class Answers {
 public:
  using OrderedJson = nlohmann::ordered_json;

  /// @param out  outlives this object
  /// @throws UsageError  if the file's name has no ending that is known, or --json asks for something else
  Answers(const PredictFlags& flags, std::ostream& out);

  /// @param line  what people read
  void add(const OrderedJson& answer, const std::string& line);
  /// Shows what was added so far.
  void flush() const;
  /// For after the last answer.
  void finish();

 private:
  void add_row(const OrderedJson& answer);

  const bool json_;
  std::ostream& out_;
  char delimiter_ = 0;                // of a table; 0: JSON Lines
  std::unique_ptr<AtomicFile> file_;  // null: the stream
  std::vector<std::string> columns_;  // of a table, once it has a row
};

}  // namespace lockstep
