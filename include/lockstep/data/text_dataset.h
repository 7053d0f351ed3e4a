#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One row of texts, e.g. a review, or a premise and a hypothesis.
struct TextRow {
  std::vector<std::string> texts;     ///< in the order of `TextDataset::fields()`
  std::optional<std::int64_t> label;  ///< set if the dataset has labels
};

/// Properties that all rows of a text dataset share.
struct TextDatasetInfo {
  std::vector<std::string> fields;             ///< names of the texts; at least one
  bool has_labels = false;                     ///< every row has a label
  std::map<std::string, std::int64_t> labels;  ///< the label of each text of the label column; empty without labels
};

/// A finite list of rows of texts, as read from files, for `tokenize`. See open_text_file.
///
/// The public calls may run on several threads at once. What a row holds depends on its index alone.
class TextDataset {
 public:
  virtual ~TextDataset() = default;
  TextDataset(const TextDataset&) = delete;
  TextDataset& operator=(const TextDataset&) = delete;

  /// Number of rows.
  virtual std::int64_t size() const = 0;
  /// The row `index`. @throws Error  if `index` is not in [0, size()); with file and line, if the row cannot be read
  TextRow get(std::int64_t index) const;
  /// The row's location, for errors: "reviews.csv:12". @throws Error  if `index` is not in [0, size())
  std::string where(std::int64_t index) const;
  /// SHA-256 of everything that the rows depend on, file contents included, as 64 hexadecimal digits: two datasets with
  /// equal digests hold equal rows. Reads the files once.
  std::string digest() const { return do_digest(); }

  const TextDatasetInfo& info() const { return info_; }
  const std::vector<std::string>& fields() const { return info_.fields; }
  bool has_labels() const { return info_.has_labels; }
  const std::map<std::string, std::int64_t>& labels() const { return info_.labels; }

 protected:
  explicit TextDataset(TextDatasetInfo info) : info_(std::move(info)) {}
  void set_info(TextDatasetInfo info) { info_ = std::move(info); }

 private:  // indices are in range when these are called
  virtual TextRow do_get(std::int64_t index) const = 0;
  virtual std::string do_where(std::int64_t index) const = 0;
  virtual std::string do_digest() const = 0;

  void check_index(std::int64_t index) const;

  TextDatasetInfo info_;
};

/// Some rows of another dataset: row i is that dataset's row `indices[i]`. Nothing is read.
/// @throws Error  if an index is outside `rows`
std::shared_ptr<const TextDataset> select_rows(std::shared_ptr<const TextDataset> rows,
                                               std::vector<std::int64_t> indices);

/// `count` rows at random, each at most once: the first `count` of `torch.randperm(size)` after
/// `torch.manual_seed(seed)`. Sample before `tokenize`, so that only the sample is tokenized.
/// @throws Error  if `count` is not between 1 and the number of rows
std::shared_ptr<const TextDataset> sample_rows(std::shared_ptr<const TextDataset> rows, std::int64_t count,
                                               std::uint64_t seed);

/// Several datasets' rows, one after the other.
/// @throws Error  if `parts` is empty, or the datasets differ in their fields or labels
std::shared_ptr<const TextDataset> concat_rows(std::vector<std::shared_ptr<const TextDataset>> parts);

}  // namespace lockstep
