#include "lockstep/detail/data/csv_encoding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/csv/class_order.h"
#include "lockstep/data/csv/csv_columns.h"

namespace lockstep {
namespace {

using Kind = CsvColumn::Kind;
using Scaling = CsvColumn::Scaling;

double scaled(double number, Scaling scaling) { return scaling == Scaling::LogMinMax ? std::log1p(number) : number; }

[[noreturn]] void unknown_text(const CsvColumn& column, const CsvColumnData& data, std::size_t id,
                               const std::string& fix) {
  throw Error(fmt::format("\"{}\" in the column \"{}\" is not one of the values listed, or seen in training",
                          data.texts[id], column.name),
              data.first_where[id], fix);
}

constexpr std::int64_t kNotListed = -1;

// For each text of a category, its position in the list of values. Empty for other columns.
std::vector<std::int64_t> values_of_texts(const CsvColumn& column, const CsvColumnData& data) {
  std::vector<std::int64_t> places;
  std::vector<std::size_t> unknown;
  for (std::size_t id = 0; id < data.texts.size(); ++id) {
    const auto found = std::find(column.values.begin(), column.values.end(), data.texts[id]);
    if (found == column.values.end() && !column.unknown_allowed) {
      unknown_text(column, data, id,
                   "correct the value; in a program list it, or set `unknown_allowed` to encode it as all zeros");
    }
    if (found == column.values.end()) unknown.push_back(id);
    places.push_back(found == column.values.end() ? kNotListed : found - column.values.begin());
  }
  if (!unknown.empty()) {
    log_warning(
        "{}: {} of {} values of the column \"{}\" were not in the training file and are encoded as unknown; the first "
        "is {:?}",
        data.first_where[unknown.front()], unknown.size(), data.texts.size(), column.name,
        data.texts[unknown.front()].substr(0, 40));
  }
  return places;
}

std::vector<std::string> sorted_texts(const CsvColumnData& data) {
  std::vector<std::string> texts(data.texts.begin(), data.texts.end());
  sort_classes(texts);
  return texts;
}

}  // namespace

CsvEncoding::CsvEncoding(const CsvSchema& schema, const CsvColumns& columns) {
  for (std::size_t i = 0; i < schema.columns.size(); ++i) {
    const CsvColumn& column = schema.columns[i];
    if (column.kind == Kind::Label) learn_classes(column, columns.column(i));
    if (column.kind != Kind::Number && column.kind != Kind::Category) continue;
    Feature feature{column};
    if (column.kind == Kind::Number) learn_number(feature, columns.column(i));
    if (column.kind == Kind::Category) learn_category(feature, columns.column(i));
    add(std::move(feature));
  }
}

void CsvEncoding::add(Feature feature) {
  const CsvColumn& column = feature.declared;
  feature.first = static_cast<std::int64_t>(feature_names_.size());
  if (column.kind == Kind::Category && column.encoding == CsvColumn::Encoding::OneHot) {
    feature.width = static_cast<std::int64_t>(column.values.size());
    for (const std::string& value : column.values) feature_names_.push_back(column.name + "=" + value);
  } else {
    feature_names_.push_back(column.name);
  }
  if (static_cast<std::int64_t>(feature_names_.size()) > kMostFeatures) {
    throw Error(fmt::format("the columns make more than {} features", kMostFeatures), "CSV schema",
                "encode the columns with most values as an index, or ignore them");
  }
  features_.push_back(std::move(feature));
}

std::vector<CsvColumn> CsvEncoding::feature_columns() const {
  std::vector<CsvColumn> columns;
  for (const Feature& feature : features_) columns.push_back(feature.declared);
  return columns;
}

void CsvEncoding::learn_number(Feature& feature, const CsvColumnData& data) {
  const Scaling scaling = feature.declared.scaling;
  if (scaling == Scaling::None) return;
  double low = INFINITY;
  double high = -INFINITY;
  double sum = 0;
  for (const double number : data.numbers) {
    const double value = scaled(number, scaling);
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  const auto count = static_cast<double>(data.numbers.size());
  double spread = high - low;
  feature.offset = low;
  if (scaling == Scaling::Standard) {
    feature.offset = sum / count;
    double squares = 0;
    for (const double number : data.numbers) squares += (number - feature.offset) * (number - feature.offset);
    spread = high > low ? std::sqrt(squares / count) : 0;
  }
  feature.factor = spread > 0 ? 1 / spread : 0;
}

void CsvEncoding::learn_category(Feature& feature, const CsvColumnData& data) {
  CsvColumn& column = feature.declared;
  if (column.values.empty()) column.values = sorted_texts(data);
}

void CsvEncoding::learn_classes(const CsvColumn& label, const CsvColumnData& data) {
  classes_ = label.class_of;
  if (!classes_.empty()) return;
  for (std::size_t id = 0; id < data.texts.size(); ++id) {
    if (data.texts[id].find_first_not_of(" \t") != std::string_view::npos) continue;
    throw Error(fmt::format("the label \"{}\" is empty", label.name), data.first_where[id],
                "correct the row, or remove it from the file: an empty label would be a class of its own");
  }
  for (const std::string& text : sorted_texts(data)) classes_.emplace(text, static_cast<std::int64_t>(classes_.size()));
}

Batch CsvEncoding::encode(const CsvSchema& schema, const CsvColumns& columns, const std::string& path) const {
  Batch batch;
  std::vector<Source> sources;
  for (std::size_t i = 0; i < schema.columns.size(); ++i) {
    const CsvColumn& column = schema.columns[i];
    const CsvColumnData& data = columns.column(i);
    if (column.kind == Kind::Label) batch["labels"] = labels(column, data);
    if (column.kind != Kind::Number && column.kind != Kind::Category) continue;
    const Feature& feature = feature_of(column, path);
    sources.push_back({&feature, &data, values_of_texts(feature.declared, data)});
  }
  if (sources.size() != features_.size()) {
    throw Error(fmt::format("{} of the {} feature columns of the training file are missing",
                            features_.size() - sources.size(), features_.size()),
                path, "declare the same features for both files");
  }
  const auto rows = static_cast<std::int64_t>(columns.rows());
  at::Tensor features = at::zeros({rows, static_cast<std::int64_t>(feature_names_.size())}, at::kFloat);
  constexpr std::int64_t kBlock = 256;  // rows that stay in the cache while all columns are written into them
  for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
    write(sources, begin, std::min(begin + kBlock, rows), features.data_ptr<float>());
  }
  batch["features"] = std::move(features);
  return batch;
}

const CsvEncoding::Feature& CsvEncoding::feature_of(const CsvColumn& column, const std::string& path) const {
  const auto found = std::find_if(features_.begin(), features_.end(),
                                  [&](const Feature& feature) { return feature.declared.name == column.name; });
  if (found != features_.end() && found->declared.kind == column.kind && found->declared.scaling == column.scaling) {
    return *found;
  }
  throw Error(
      fmt::format("the column \"{}\" was not a feature of the training file, or was of another kind", column.name),
      path, "declare the same features for both files");
}

void CsvEncoding::write(const std::vector<Source>& sources, std::int64_t begin, std::int64_t end, float* out) const {
  const auto stride = static_cast<std::int64_t>(feature_names_.size());
  for (const auto& [feature, data, value_of_text] : sources) {
    const CsvColumn& column = feature->declared;
    float* row = out + begin * stride + feature->first;
    for (std::int64_t i = begin; i < end; ++i, row += stride) {
      if (column.kind == Kind::Number) {
        *row = static_cast<float>((scaled(data->numbers[i], column.scaling) - feature->offset) * feature->factor);
        continue;
      }
      const std::int64_t value = value_of_text[data->text_ids[i]];
      if (column.encoding == CsvColumn::Encoding::Index) {
        *row = static_cast<float>(value);
      } else if (value != kNotListed) {
        row[value] = 1;
      }
    }
  }
}

at::Tensor CsvEncoding::labels(const CsvColumn& label, const CsvColumnData& data) const {
  std::vector<std::int64_t> class_of_text;
  for (std::size_t id = 0; id < data.texts.size(); ++id) {
    const auto found = classes_.find(std::string(data.texts[id]));
    if (found == classes_.end() && !label.other_class) {
      unknown_text(label, data, id,
                   "correct the row, or remove it from the file; in a program list the text in `class_of`, or give "
                   "`other_class`");
    }
    class_of_text.push_back(found == classes_.end() ? *label.other_class : found->second);
  }
  const at::Tensor out = at::empty({static_cast<std::int64_t>(data.text_ids.size())}, at::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  for (const std::int32_t id : data.text_ids) *to++ = class_of_text[id];
  return out;
}

}  // namespace lockstep
