// JSON in SQuAD's format as rows of texts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/data/text/files/json_fields.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/texts/indexed_texts.h"

namespace lockstep {
namespace {

using text::JsonFields;

// A name as `const char*`: GCC 13 and later take the result for a part of a std::string that was made for the call.
const nlohmann::json& array_of(JsonFields& fields, const char* key) {
  const std::string name = key;
  const nlohmann::json& value = fields.require(name);
  if (value.is_array()) return value;
  throw Error("expected an array, but it says " + text::show_json(value), fields.place(name),
              "give a file in SQuAD's form");
}

std::string text_of(JsonFields& fields, const std::string& name) {
  const nlohmann::json& value = fields.require(name);
  if (value.is_string()) return value.get<std::string>();
  throw Error("expected a string, but it says " + text::show_json(value), fields.place(name),
              "give a file in SQuAD's form");
}

class SquadTexts : public TextDataset {
 public:
  SquadTexts(const std::string& path, const TextFileOptions& options, SquadRows rows)
      : TextDataset({}), path_(path), rows_(rows), settings_(digest_of(options, "squad")) {
    if (options.has_labels()) throw Error("a file in SQuAD's form has no labels", path, "name no label column");
    for (const std::string& name : options.texts) columns_.push_back(column(name));
    TextRowChecks checks(options, path);
    const FileBytes file = FileBytes::open_text(path);
    const nlohmann::json document = text::parse_json(file.view(), path);
    JsonFields fields(document, path + ": $");
    const nlohmann::json& articles = array_of(fields, "data");
    for (std::size_t i = 0; i < articles.size(); ++i) {
      add_article(articles[i], fmt::format("{}: data[{}]", path, i), checks);
    }
    file.require_whole();
    checks.finish();
    set_info(checks.info());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(places_.size()); }

 private:
  // A row: one text per column, as an index into texts_.
  using Row = std::vector<std::size_t>;

  std::size_t column(const std::string& name) const {
    const std::vector<std::string>& names = squad_columns(rows_);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw Error(no_such_column(name, names), path_, "name one of them");
    return static_cast<std::size_t>(found - names.begin());
  }

  void add_article(const nlohmann::json& article, const std::string& where, TextRowChecks& checks) {
    JsonFields fields(article, where);
    // Some files in this format have no titles.
    const std::size_t title = keep(fields.text("title", ""));
    const nlohmann::json& paragraphs = array_of(fields, "paragraphs");
    for (std::size_t i = 0; i < paragraphs.size(); ++i) {
      add_paragraph(paragraphs[i], title, fmt::format("{}.paragraphs[{}]", where, i), checks);
    }
  }

  void add_paragraph(const nlohmann::json& paragraph, std::size_t title, const std::string& where,
                     TextRowChecks& checks) {
    JsonFields fields(paragraph, where);
    const std::size_t context = keep(text_of(fields, "context"));
    if (rows_ == SquadRows::Contexts) return add_row({title, context}, where, checks);
    const nlohmann::json& questions = array_of(fields, "qas");
    for (std::size_t i = 0; i < questions.size(); ++i) {
      const std::string place = fmt::format("{}.qas[{}]", where, i);
      JsonFields question(questions[i], place);
      const std::size_t id = keep(text_of(question, "id"));
      add_row({id, title, context, keep(text_of(question, "question"))}, place, checks);
    }
  }

  void add_row(const Row& all, const std::string& where, TextRowChecks& checks) {
    Row row;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      row.push_back(all[columns_[i]]);
      checks.text(i, texts_[row[i]], [&] { return fmt::format("{}.{}", where, squad_columns(rows_)[columns_[i]]); });
    }
    if (!checks.end_row(0)) return;
    table_.push_back(std::move(row));
    places_.push_back(where);
  }

  std::size_t keep(std::string text) {
    texts_.push_back(std::move(text));
    return texts_.size() - 1;
  }

  TextRow do_get(std::int64_t index) const override {
    TextRow row;
    for (const std::size_t text : table_[index]) row.texts.push_back(texts_[text]);
    return row;
  }
  std::string do_where(std::int64_t index) const override { return places_[index]; }
  std::string do_digest() const override {
    Sha256 digest;
    digest.update_sized(settings_);
    for (const Row& row : table_) {
      for (const std::size_t text : row) digest.update_sized(texts_[text]);
    }
    return digest.hex();
  }

  std::string path_;
  SquadRows rows_;
  std::string settings_;
  std::vector<std::size_t> columns_;  // into squad_columns(rows_), one per text
  std::vector<std::string> texts_;
  std::vector<Row> table_;
  std::vector<std::string> places_;
};

}  // namespace

const std::vector<std::string>& squad_columns(SquadRows rows) {
  static const std::vector<std::string> questions{"id", "title", "context", "question"};
  static const std::vector<std::string> contexts{"title", "context"};
  return rows == SquadRows::Questions ? questions : contexts;
}

std::shared_ptr<const TextDataset> read_squad_texts(const std::string& path, const TextFileOptions& options,
                                                    SquadRows rows) {
  return std::make_shared<SquadTexts>(path, options, rows);
}

}  // namespace lockstep
