#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/text_dataset.h"
#include "lockstep/data/text_file.h"

namespace lockstep {

/// Decides row by row which rows a reader keeps, and collects the offsets of the kept rows and their labels. For each
/// row, call `text` for its texts, then `label` if there is one, then `end_row`.
class TextRowChecks {
 public:
  /// The location of a field, needed for errors only. It refers to a function without arguments that must outlive the
  /// call; copying it, as std::function does, would cost time for each field of a file.
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

  /// Most different labels in one column: a column with more is not a label.
  static constexpr std::size_t kMostLabels = 65536;
  static constexpr std::size_t kMostSets = std::size_t{1} << 24;  ///< of labels that rows have together

  /// @throws Error  if no text is named, a name is repeated, a label is negative, 2^31 or more, or not below
  /// num_labels, a policy does not apply to its rows, or there are label settings without a label column
  TextRowChecks(const TextFileOptions& options, std::string path);

  /// Checks text `field`, a position in `options.texts`. @throws Error  if its row must be refused
  void text(std::size_t field, std::string_view value, const Where& where);
  /// Checks the label. @throws Error  as `text`, or if there are more than kMostLabels
  void label(std::string_view value, const Where& where);
  /// Checks a label that is the JSON list of several. @throws Error  as `text`, or if there are more than kMostSets
  void label_set(std::string_view list, const Where& where);
  /// Handles a label that is not a text, such as JSON's null. @throws Error  as `text`
  void no_label(const Where& where);
  /// Handles invalid UTF-8 that belongs to no field. @throws Error  as `text`
  void invalid_bytes(const std::string& what, const Where& where);
  /// Whether some row so far had this label, or it is one of the listed ones.
  bool knows_label(std::string_view value) const { return labels_.count(std::string(value)) != 0; }

  /// Ends the row, which begins at `offset`. Returns whether it is kept.
  bool end_row(std::uint64_t offset);

  /// Ends the file: learned labels get their final numbers.
  /// @throws Error  if no row is left, or if more labels were learned than the head has
  void finish();

  /// Valid after `finish`.
  std::vector<std::uint64_t> take_offsets() { return std::move(offsets_); }
  std::vector<std::int32_t> take_labels() { return std::move(row_labels_); }
  TextDatasetInfo info() const;

 private:
  struct Label {
    std::int32_t id;
    std::string first_where;  // only for learned labels
  };

  bool learns() const { return options_.labels.empty(); }
  void refuse_or_skip(RowPolicy policy, const std::string& what, const Where& where, const std::string& fix,
                      std::int64_t& skipped);
  void missing_label(const std::string& what, const Where& where);
  void unlisted_label(const std::string& what, const Where& where);
  void learn(const std::string& value, const Where& where);
  void number_learned_labels();

  TextFileOptions options_;
  std::string path_;
  std::unordered_map<std::string, Label> labels_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::int32_t> row_labels_;
  std::string last_label_;  // often equal to the label of the row above
  std::int32_t last_id_ = -1;
  std::int32_t id_ = -1;  // of the current row
  bool keep_ = true;
  bool holds_sets_ = false;
  std::int64_t skipped_labels_ = 0, skipped_empty_ = 0, skipped_invalid_ = 0;
};

/// `name` and the existing columns, for an error about a missing column; suggests the column that was probably meant.
std::string no_such_column(const std::string& name, const std::vector<std::string>& columns);
/// The same for an object without a field that the file's `first` object has. @param own  what the object has
std::string no_such_field(const std::string& name, const std::vector<std::string>& own,
                          const std::vector<std::string>& first);

}  // namespace lockstep
