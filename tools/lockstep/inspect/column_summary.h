// The content of a dataset's columns, for `lockstep inspect`.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lockstep/inspect/inspection.h"

namespace lockstep {

/// The content of one column.
class ColumnSummary {
 public:
  explicit ColumnSummary(std::string name) : name_(std::move(name)) {}

  void add(std::string_view value) {
    ++rows_;
    bytes_ += value.size();
    longest_bytes_ = std::max(longest_bytes_, value.size());
    if (value.empty()) ++empty_;
    add_number(value);
    if (counts_.size() <= kMostValues && value.size() <= kLongestValueBytes) {
      ++counts_[std::string(value)];
    } else {
      has_more_values_ = true;
    }
  }

  Inspection json() const {
    Inspection out{{"name", name_}, {"empty", empty_}, {"longest_bytes", longest_bytes_}};
    out["mean_bytes"] = rows_ == 0 ? 0.0 : static_cast<double>(bytes_) / static_cast<double>(rows_);
    if (numbers_ > 0 && numbers_ == rows_ - empty_) {
      out["min"] = min_;
      out["max"] = max_;
    }
    // As many values as rows mean an index or free text, not classes.
    if (!has_more_values_ && counts_.size() <= kMostValues && counts_.size() < static_cast<std::size_t>(rows_)) {
      out["values"] = counts_;
    }
    return out;
  }

 private:
  // A column with more different values is not a column of labels, and counting them all takes memory.
  static constexpr std::size_t kMostValues = 64;
  static constexpr std::size_t kLongestValueBytes = 100;

  void add_number(std::string_view value) {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) return;
    min_ = numbers_ == 0 ? number : std::min(min_, number);
    max_ = numbers_ == 0 ? number : std::max(max_, number);
    ++numbers_;
  }

  std::string name_;
  std::int64_t rows_ = 0;
  std::int64_t empty_ = 0;
  std::int64_t numbers_ = 0;
  std::size_t bytes_ = 0;
  std::size_t longest_bytes_ = 0;
  double min_ = 0;
  double max_ = 0;
  bool has_more_values_ = false;
  std::map<std::string, std::int64_t> counts_;
};

/// A dataset of `kind` in one file.
inline Inspection summary_of_columns(const char* kind, const std::string& path, std::int64_t rows,
                                     const std::vector<ColumnSummary>& columns) {
  Inspection out{{"kind", kind}, {"path", path}, {"bytes", std::filesystem::file_size(path)}, {"rows", rows}};
  out["columns"] = Inspection::array();
  for (const ColumnSummary& column : columns) out["columns"].push_back(column.json());
  return out;
}

}  // namespace lockstep
