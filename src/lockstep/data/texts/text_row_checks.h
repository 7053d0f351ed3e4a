#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/text_dataset.h"
#include "lockstep/data/text_file.h"

namespace lockstep {

/// Decides row by row what a reader keeps, and collects where the kept rows begin and their labels. One row is its
/// texts, then its label if there is one, then `end_row`.
class TextRowChecks {
 public:
  /// The place of a field, asked for in errors only: a function without arguments that must outlive the call, and is
  /// not copied, as a std::function would be for each field of a file.
  class Where {
   public:
    template <typename Function>
    Where(const Function& function)  // NOLINT(google-explicit-constructor): calls name the function itself
        : function_(&function), call_([](const void* f) { return (*static_cast<const Function*>(f))(); }) {}
    std::string operator()() const { return call_(function_); }

   private:
    const void* function_;
    std::string (*call_)(const void*);
  };

  /// Most different labels in one column: a column with more is no label.
  static constexpr std::size_t kMostLabels = 65536;

  /// @throws Error  if no text is named, a name comes twice, a label is negative, 2^31 or more, or not below
  /// num_labels, a policy is none that its rows can have, or label settings stand without a label column
  TextRowChecks(const TextFileOptions& options, std::string path);

  /// Looks at text `field`, a position in `options.texts`. @throws Error  where its row is to be refused
  void text(std::size_t field, std::string_view value, const Where& where);
  /// Looks at the label. @throws Error  as `text`, or for more than kMostLabels
  void label(std::string_view value, const Where& where);
  /// A label that is no text, such as JSON's null. @throws Error  as `text`
  void no_label(const Where& where);
  /// Bytes that belong to no field in particular and are no UTF-8. @throws Error  as `text`
  void invalid_bytes(const std::string& what, const Where& where);
  /// Ends the row, which begins at `offset`. Returns whether it is kept.
  bool end_row(std::uint64_t offset);

  /// Ends the file: learned labels get their final numbers.
  /// @throws Error  if no row is left, or if more labels were learned than the head has
  void finish();

  /// After `finish`.
  std::vector<std::uint64_t> take_offsets() { return std::move(offsets_); }
  std::vector<std::int32_t> take_labels() { return std::move(row_labels_); }
  TextDatasetInfo info() const;

 private:
  struct Label {
    std::int32_t id;
    std::string first_where;  // learned ones only
  };

  bool learns() const { return options_.labels.empty(); }
  void refuse_or_skip(RowPolicy policy, const std::string& what, const Where& where, const std::string& fix,
                      std::int64_t& skipped);
  void unlisted_label(const std::string& what, const Where& where);
  void learn(const std::string& value, const Where& where);
  void number_learned_labels();

  TextFileOptions options_;
  std::string path_;
  std::unordered_map<std::string, Label> labels_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::int32_t> row_labels_;
  std::string last_label_;  // often the same as in the row above
  std::int32_t last_id_ = -1;
  std::int32_t id_ = -1;  // of the row at hand
  bool keep_ = true;
  std::int64_t skipped_labels_ = 0, skipped_empty_ = 0, skipped_invalid_ = 0;
};

/// `name` and the columns that there are, for an error about a column that is not there: with the one that was probably
/// meant.
std::string no_such_column(const std::string& name, const std::vector<std::string>& columns);

}  // namespace lockstep
