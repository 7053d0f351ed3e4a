// Readers on published files, compared with Python's csv and json modules, row by row.
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/files/sha256.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "tests/data/python_program.h"

namespace lockstep {
namespace {

const std::string kTexts = LOCKSTEP_SHARED_DATA "/text/";

struct RealTexts {
  const char* name;
  const char* file;
  std::shared_ptr<const TextDataset> (*read)(const std::string& path);
  std::int64_t rows;
  std::map<std::string, std::int64_t> labels;
  const char* python;  // yields the rows of `path` as lists of texts and, if there is one, the label
  friend std::ostream& operator<<(std::ostream& out, const RealTexts& c) { return out << c.name; }
};

TextFileOptions real_columns(std::vector<std::string> texts, std::string label = "") {
  TextFileOptions options;
  options.texts = std::move(texts);
  options.label = std::move(label);
  return options;
}

// One number for all rows; Python's side must print an equal number.
std::string digest_of_rows(const TextDataset& rows) {
  Sha256 digest;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const TextRow row = rows.get(i);
    for (const std::string& text : row.texts) digest.update(text + '\x1f');
    if (!row.label) continue;
    for (const auto& [text, label] : rows.labels()) {
      if (label == *row.label) digest.update(text + '\x1f');
    }
  }
  return digest.hex();
}

constexpr const char* kPythonEnd = R"(
digest = hashlib.sha256()
for row in rows():
    for text in row: digest.update((str(text) + '\x1f').encode())
print(digest.hexdigest(), end='')
)";

class RealTextFiles : public ::testing::TestWithParam<RealTexts> {};

TEST_P(RealTextFiles, HoldTheRowsThatPythonFinds) {
  const RealTexts& real = GetParam();
  const std::string path = kTexts + real.file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "not here: " << path;
  const auto rows = real.read(path);
  EXPECT_EQ(rows->size(), real.rows);
  EXPECT_EQ(rows->labels(), real.labels);
  const std::string want = run_python("import csv, gzip, hashlib, json\npath = '" + path + "'\ndef rows():\n" +
                                      std::string(real.python) + kPythonEnd);
  if (want.empty()) GTEST_SKIP() << "no python3 to compare with";
  EXPECT_EQ(digest_of_rows(*rows), want);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RealTextFiles,
    ::testing::Values(
        RealTexts{"alexa_reviews",
                  "amazon-alexa/amazon_alexa.tsv",
                  [](const std::string& path) {
                    TextFileOptions options = real_columns({"verified_reviews"}, "rating");
                    options.empty_texts = RowPolicy::Skip;
                    return open_text_file(path, options);
                  },
                  3139 - 77,
                  {{"1", 0}, {"2", 1}, {"3", 2}, {"4", 3}, {"5", 4}},
                  "    for row in csv.DictReader(open(path, newline='', encoding='utf-8'), delimiter='\\t'):\n"
                  "        if row['verified_reviews'].strip(): yield row['verified_reviews'], row['rating']\n"},
        RealTexts{"movie_reviews",
                  "movie-reviews/movie_reviews.jsonl.gz",
                  [](const std::string& path) { return open_text_file(path, real_columns({"text"}, "label")); },
                  2000,
                  {{"neg", 0}, {"pos", 1}},
                  "    for line in gzip.open(path):\n"
                  "        row = json.loads(line)\n"
                  "        yield row['text'], row['label']\n"},
        RealTexts{"nli_pairs",
                  "textfooler/mnli_matched.txt",
                  [](const std::string& path) {
                    TextFileOptions options = real_columns({"premise", "hypothesis"}, "label");
                    options.column_names = {"label", "premise", "hypothesis"};
                    options.dialect.quote = '\0';
                    return read_tsv_texts(path, options);
                  },
                  1000,
                  {{"contradiction", 0}, {"entailment", 1}, {"neutral", 2}},
                  "    for line in open(path, newline='', encoding='utf-8'):\n"
                  "        label, premise, hypothesis = line.rstrip('\\r\\n').split('\\t')\n"
                  "        yield premise, hypothesis, label\n"},
        RealTexts{"rte_pairs",
                  "rte/rte1-3.tsv",
                  [](const std::string& path) {
                    TextFileOptions options = real_columns({"premise", "hypothesis"}, "label");
                    options.dialect.quote = '\0';
                    return open_text_file(path, options);
                  },
                  4167,
                  {{"entailment", 0}, {"not_entailment", 1}},
                  "    for row in csv.DictReader(open(path, newline='', encoding='utf-8'), delimiter='\\t',\n"
                  "                              quoting=csv.QUOTE_NONE):\n"
                  "        yield row['premise'], row['hypothesis'], row['label']\n"},
        RealTexts{"squad_questions",
                  "squad/xquad.en.json",
                  [](const std::string& path) {
                    return open_text_file(path, real_columns({"question", "context"}));
                  },
                  1190,
                  {},
                  "    for article in json.load(open(path, encoding='utf-8'))['data']:\n"
                  "        for paragraph in article['paragraphs']:\n"
                  "            for qa in paragraph['qas']: yield qa['question'], paragraph['context']\n"},
        RealTexts{"squad_contexts",
                  "squad/xquad.en.json",
                  [](const std::string& path) {
                    return read_squad_texts(path, real_columns({"context"}), SquadRows::Contexts);
                  },
                  240,
                  {},
                  "    for article in json.load(open(path, encoding='utf-8'))['data']:\n"
                  "        for paragraph in article['paragraphs']: yield paragraph['context'],\n"},
        RealTexts{"shakespeare_lines",
                  "tinyshakespeare/input.txt",
                  [](const std::string& path) {
                    TextFileOptions options;
                    options.empty_texts = RowPolicy::Keep;
                    return read_text_lines(path, options);
                  },
                  40000,
                  {},
                  "    for line in open(path, newline='\\n', encoding='utf-8'): yield line.rstrip('\\n'),\n"}),
    [](const auto& test) { return test.param.name; });

TEST(RealTokens, SampleOfAFileIsTokenizedOnce) {
  const std::string folder = LOCKSTEP_SHARED_DATA "/tokenizers/bert-base-uncased";
  const std::string path = kTexts + "amazon-alexa/amazon_alexa.tsv";
  if (!std::filesystem::exists(folder) || !std::filesystem::exists(path)) GTEST_SKIP() << "not here: " << folder;
  TextFileOptions columns = real_columns({"verified_reviews"}, "rating");
  columns.empty_texts = RowPolicy::Skip;
  const auto sample = sample_rows(open_text_file(path, columns), 100, 42);
  const Tokenizer tokenizer = load_tokenizer(folder);
  const TemporaryFolder cache;
  TokenizeOptions options;
  options.max_length = 64;
  options.truncation = true;
  options.cache_dir = cache.path();
  EncodeOptions encode;
  encode.truncation = Truncation{64};
  for (int pass = 0; pass < 2; ++pass) {
    const auto dataset = tokenize(*sample, tokenizer, options);
    ASSERT_EQ(dataset->size(), 100);
    for (std::int64_t i = 0; i < 100; ++i) {
      const at::Tensor ids = dataset->get(i).at("input_ids");
      const Encoding want = tokenizer.encode(sample->get(i).texts[0], encode);
      ASSERT_EQ(std::vector<TokenId>(ids.data_ptr<std::int64_t>(), ids.data_ptr<std::int64_t>() + ids.numel()),
                want.ids);
    }
  }
}

}  // namespace
}  // namespace lockstep
