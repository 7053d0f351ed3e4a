// Datasets of texts that consist of rows of others.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/data/samplers/permutation.h"
#include "lockstep/data/text_dataset.h"

namespace lockstep {
namespace {

class SelectedRows : public TextDataset {
 public:
  SelectedRows(std::shared_ptr<const TextDataset> rows, std::vector<std::int64_t> indices)
      : TextDataset(rows->info()), rows_(std::move(rows)), indices_(std::move(indices)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }

 private:
  TextRow do_get(std::int64_t index) const override { return rows_->get(indices_[index]); }
  std::string do_where(std::int64_t index) const override { return rows_->where(indices_[index]); }
  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized("selected rows");
    digest.update_sized(rows_->digest());
    for (const std::int64_t index : indices_) digest.update_number(index);
    return digest.hex();
  }

  std::shared_ptr<const TextDataset> rows_;
  std::vector<std::int64_t> indices_;
};

class JoinedRows : public TextDataset {
 public:
  explicit JoinedRows(std::vector<std::shared_ptr<const TextDataset>> parts)
      : TextDataset(parts.front()->info()), parts_(std::move(parts)) {
    for (const auto& part : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  }

  std::int64_t size() const override { return ends_.back(); }

 private:
  struct Place {
    const TextDataset& part;
    std::int64_t index;
  };
  Place place(std::int64_t index) const {
    const auto part = std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
    return {*parts_[part], part == 0 ? index : index - ends_[part - 1]};
  }
  TextRow do_get(std::int64_t index) const override { return place(index).part.get(place(index).index); }
  std::string do_where(std::int64_t index) const override { return place(index).part.where(place(index).index); }
  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized("joined rows");
    for (const auto& part : parts_) digest.update_sized(part->digest());
    return digest.hex();
  }

  std::vector<std::shared_ptr<const TextDataset>> parts_;
  std::vector<std::int64_t> ends_;
};

}  // namespace

std::shared_ptr<const TextDataset> select_rows(std::shared_ptr<const TextDataset> rows,
                                               std::vector<std::int64_t> indices) {
  if (!rows) throw Error("there is no dataset to take rows from", "select_rows", "give a dataset");
  const std::int64_t count = rows->size();
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < count) continue;
    throw Error(fmt::format("there is no row {} in a dataset of {} rows", index, count), "select_rows",
                "give indices from 0 to size() - 1");
  }
  return std::make_shared<SelectedRows>(std::move(rows), std::move(indices));
}

std::shared_ptr<const TextDataset> sample_rows(std::shared_ptr<const TextDataset> rows, std::int64_t count,
                                               std::uint64_t seed) {
  if (!rows) throw Error("there is no dataset to take rows from", "sample_rows", "give a dataset");
  if (count < 1 || count > rows->size()) {
    throw Error(fmt::format("{} rows were asked for, but the dataset has {}", count, rows->size()), "sample_rows",
                "ask for at least 1 row and at most all of them");
  }
  const at::Tensor order = random_permutation(rows->size(), seed);
  const auto* first = order.data_ptr<std::int64_t>();
  return select_rows(std::move(rows), std::vector<std::int64_t>(first, first + count));
}

std::shared_ptr<const TextDataset> concat_rows(std::vector<std::shared_ptr<const TextDataset>> parts) {
  if (parts.empty()) throw Error("there are no datasets to concatenate", "concat_rows", "give at least one");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) throw Error(fmt::format("dataset {} is null", i), "concat_rows", "give datasets");
    const bool alike = parts[i]->fields() == parts[0]->fields() && parts[i]->has_labels() == parts[0]->has_labels() &&
                       parts[i]->labels() == parts[0]->labels();
    if (alike) continue;
    throw Error(fmt::format("dataset {} has other fields or labels than dataset 0", i), "concat_rows",
                "read all of them with the same fields and the same labels");
  }
  return std::make_shared<JoinedRows>(std::move(parts));
}

}  // namespace lockstep
