// `lockstep tokenizer`: makes vocabularies.
#include "lockstep/data/text/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/text/text_line.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/csv/joined_lines.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/format_ending.h"
#include "lockstep/data/text/encoders/wordpiece_trainer.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/flags/table_flags.h"

namespace lockstep {
namespace {

class TokenizerCommand : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.require_subcommand(1);
    CLI::App& train = *app.add_subcommand("train", "learn a WordPiece vocabulary from texts");
    train.add_option("files", files_, "text files, or .csv and .tsv files with --column; files may be gzipped")
        ->required()
        ->check(CLI::ExistingFile);
    train.add_option("--output", output_, "folder for vocab.txt, tokenizer.json and tokenizer_config.json")->required();
    train.add_option("--column", column_,
                     "column of .csv and .tsv files, by its name in the first line, or its number with --no-header");
    table_.add(train);
    train.add_option("--vocab-size", options_.vocab_size, "tokens at most, including special ones")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    train.add_option("--min-frequency", options_.min_frequency, "pieces that occur less often are not joined")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    train.add_option("--limit-alphabet", options_.limit_alphabet, "characters at most, the most frequent ones")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    train.add_flag("--cased", cased_, "keep upper case and accents");
    show_examples(train, {"lockstep tokenizer train --output my-vocab --vocab-size 8000 corpus.txt",
                          "lockstep tokenizer train --output my-vocab --column review --vocab-size 2000 reviews.csv",
                          "lockstep tokenizer train --output my-vocab --quoting none --no-header --column 2 rows.tsv"});
    show_examples(app, {"lockstep tokenizer train --output my-vocab --vocab-size 8000 corpus.txt"});
  }

  int run(const CommandStreams& streams) override {
    options_.normalizer.lowercase = !cased_;
    WordPieceTrainer trainer(options_);
    std::int64_t texts = 0;
    for (const std::string& path : files_) texts += add_file(path, trainer);
    const std::vector<std::string> tokens = trainer.train();
    write(tokens);
    fmt::print(streams.out, "{} tokens from {} texts with {} different words, in {}\n", tokens.size(), texts,
               trainer.words(), output_);
    return 0;
  }

 private:
  std::int64_t add_file(const std::string& path, WordPieceTrainer& trainer) const {
    const FileBytes file = FileBytes::open_text(path);
    const std::string ending = format_ending(path);
    if (ending == ".csv" || ending == ".tsv") return add_column(file.view(), path, trainer);
    if (const std::string flag = table_.given(); !flag.empty()) {
      throw UsageError(flag + " cannot be used: the file is not a table", path,
                       "leave the flag out, or name a file that ends in .csv or .tsv");
    }
    std::int64_t lines = 0;
    for (std::string_view rest = file.view(); !rest.empty(); ++lines) trainer.add(take_line(rest));
    return lines;
  }

  std::int64_t add_column(std::string_view text, const std::string& path, WordPieceTrainer& trainer) const {
    if (column_.empty()) {
      throw UsageError("this file has columns, but no column was named", path, "name the text column with --column");
    }
    const TableForm form = table_.form();
    CsvTokenizer records(text, path, form.dialect);
    std::vector<CsvField> fields;
    std::string storage;
    if (!records.next(fields)) throw Error("the file is empty", path, "name a file with a header and rows");
    const std::size_t columns = fields.size();
    const std::vector<std::string> names = names_of(fields, form);
    const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), column_) - names.begin());
    if (at == columns) {
      throw Error("there is no column '" + column_ + "'", path + ":1",
                  fmt::format("choose one of: {}{}", fmt::join(names, ", "),
                              form.has_header ? "; without a header: --no-header, and its number" : ""));
    }
    if (!form.has_header) records.seek(records.record_offset(), 1);
    std::int64_t rows = 0;
    JoinedLines joined(path, records.delimiter(), {at});
    for (; records.next(fields); ++rows) {
      if (fields.size() != columns) {
        throw Error(fmt::format("the record has {} fields, but the {} {}", fields.size(),
                                form.has_header ? "header" : "first", columns),
                    records.where(fields.front()),
                    "quote fields that hold the delimiter, or describe the file with --delimiter and --quoting");
      }
      trainer.add(fields[at].value(storage));
      joined.look_at(fields, records);
    }
    joined.warn();
    return rows;
  }

  // Without a header the columns are called 1, 2, and so on.
  static std::vector<std::string> names_of(const std::vector<CsvField>& first, const TableForm& form) {
    std::vector<std::string> names;
    std::string storage;
    for (const CsvField& field : first) {
      names.push_back(form.has_header ? std::string(field.value(storage)) : std::to_string(names.size() + 1));
    }
    return names;
  }

  void write(const std::vector<std::string>& tokens) const {
    std::error_code error;
    std::filesystem::create_directories(output_, error);
    if (error) throw Error("cannot make the folder: " + error.message(), output_, "check the path and its permissions");
    const std::string path = (std::filesystem::path(output_) / "vocab.txt").string();
    std::string lines;
    for (const std::string& token : tokens) lines += token + "\n";
    write_file_atomically(path, lines);
    BertTokenizerOptions options;
    options.do_lower_case = !cased_;
    load_bert_vocabulary(path, options).save(output_);
  }

  std::vector<std::string> files_;
  std::string output_;
  std::string column_;
  TableFlags table_;
  WordPieceTrainerOptions options_;
  bool cased_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_tokenizer() { return std::make_unique<TokenizerCommand>(); }

}  // namespace lockstep
