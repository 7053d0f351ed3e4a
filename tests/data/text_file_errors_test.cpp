// Inputs that text readers refuse, and the errors.
#include <gtest/gtest.h>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/text_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct BadText {
  const char* name;
  const char* file;
  std::string content;
  TextFileOptions options;
  std::vector<std::string> says;
  friend std::ostream& operator<<(std::ostream& out, const BadText& bad) { return out << bad.name; }
};

TextFileOptions with(std::vector<std::string> texts, std::string label = "",
                     std::map<std::string, std::int64_t> labels = {}, std::int64_t num_labels = 0) {
  TextFileOptions options;
  options.texts = std::move(texts);
  options.label = std::move(label);
  options.labels = std::move(labels);
  options.num_labels = num_labels;
  return options;
}

class RefusedText : public ::testing::TestWithParam<BadText> {};

TEST_P(RefusedText, SaysFileRowAndField) {
  const TemporaryFolder folder;
  write_file_atomically(folder / GetParam().file, GetParam().content);
  for (const std::string& part : GetParam().says) {
    expect_error(part, [&] { open_text_file(folder / GetParam().file, GetParam().options); });
  }
}

using namespace std::string_literals;

INSTANTIATE_TEST_SUITE_P(
    Csv, RefusedText,
    ::testing::Values(
        BadText{"unknown_column",
                "a.csv",
                "review,stars\nx,1\n",
                with({"reveiw"}),
                {"no column \"reveiw\"; did you mean 'review'?", "The columns are: review, stars", "a.csv:1:1"}},
        BadText{"unknown_label_column",
                "a.csv",
                "review,stars\nx,1\n",
                with({"review"}, "label"),
                {"no column \"label\"", "a.csv:1:1"}},
        BadText{"column_twice", "a.csv", "t,t\nx,1\n", with({"t"}), {"\"t\" occurs twice"}},
        BadText{"named_twice", "a.csv", "t,u\nx,1\n", with({"t", "t"}), {"named twice"}},
        BadText{"no_column_named", "a.csv", "t,u\nx,1\n", with({}), {"no column with texts was named"}},
        BadText{"too_few_fields", "a.csv", "t,u\nx,1\ny\n", with({"t"}), {"2 fields expected, 1 found", "a.csv:3:1"}},
        BadText{"too_many_fields", "a.csv", "t,u\nx,1,2\n", with({"t"}), {"2 fields expected, 3 found", "a.csv:2:3"}},
        BadText{"open_quote", "a.csv", "t,u\nx,\"1\n", with({"t"}), {"never closed", "a.csv:2:3"}},
        BadText{"empty_text", "a.csv", "t,u\nx,1\n\"\n \",2\n", with({"t"}), {"\"t\" is empty", "a.csv:3:1"}},
        BadText{"empty_label",
                "a.csv",
                "t,u\nx,1\ny,\n",
                with({"t"}, "u"),
                {"the label \"u\" is empty", "a.csv:3:3", "correct the row"}},
        BadText{"blank_label", "a.csv", "t,u\nx,1\ny,\" \"\n", with({"t"}, "u"), {"\"u\" is empty", "a.csv:3:3"}},
        BadText{
            "utf16_with_mark", "a.csv", "\xff\xfet\0,\0u\0\n\0"s, with({"t"}), {"UTF-16", "iconv -f UTF-16 -t UTF-8"}},
        BadText{"utf16_little", "a.csv", "t\0,\0u\0\n\0"s, with({"t"}), {"UTF-16LE"}},
        BadText{"utf16_big", "a.txt", "\0t\0,\0u\0\n"s, with({"text"}), {"UTF-16BE"}},
        BadText{"utf32", "a.jsonl", "\xff\xfe\0\0{\0\0\0"s, with({"t"}), {"UTF-32"}},
        BadText{"nul", "a.csv", "u,t\n1,a\0b\n"s, with({"t"}), {"byte 2 of the text \"t\" is NUL", "a.csv:2:3"}},
        BadText{"no_utf8", "a.csv", "u,t\n1,a\xff\n", with({"t"}), {"byte 2 of the text \"t\", 0xff", "a.csv:2:3"}},
        BadText{"label_outside_head",
                "a.csv",
                "t,u\nx,1\nx,3\nx,2\n",
                with({"t"}, "u", {}, 2),
                {"\"3\" in the column \"u\" would be label 2, outside the model's head of 2 labels", "a.csv:3:3"}},
        BadText{"listed_label_outside_head",
                "a.csv",
                "t,u\nx,1\n",
                with({"t"}, "u", {{"1", 2}}, 2),
                {"label 2 of \"1\" is outside the model's head of 2 labels", "column \"u\""}},
        BadText{"negative_label", "a.csv", "t,u\nx,1\n", with({"t"}, "u", {{"1", -1}}), {"label -1 of \"1\""}},
        BadText{"label_misspelt",
                "a.csv",
                "t,u\nx,positve\n",
                with({"t"}, "u", {{"positive", 1}}),
                {"did you mean 'positive'?", "a.csv:2:3"}},
        BadText{"labels_without_column", "a.csv", "t,u\nx,1\n", with({"t"}, "", {{"1", 0}}), {"no label column"}},
        BadText{"empty_file", "a.csv", "", with({"t"}), {"the file is empty"}},
        BadText{"header_alone", "a.csv", "t,u\n", with({"t"}), {"has no rows"}},
        BadText{"unknown_ending", "a.doc", "t,u\n", with({"t"}), {".doc"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Json, RefusedText,
    ::testing::Values(
        BadText{
            "no_json", "a.jsonl", "{\"t\": \"a\"}\n{\"t\": \"b\"\n", with({"t"}), {"not valid JSON", "a.jsonl:2:10"}},
        BadText{"no_object", "a.jsonl", "[1]\n", with({"t"}), {"not an object", "a.jsonl:1:1"}},
        BadText{"scalar", "a.jsonl", "{\"t\": \"a\"}\n7\n", with({"t"}), {"not an object", "a.jsonl:2:1"}},
        BadText{"two_objects", "a.jsonl", "{\"t\": \"a\"} {}\n", with({"t"}), {"not valid JSON", "a.jsonl:1:12"}},
        BadText{"missing_key",
                "a.jsonl",
                "{\"t\": \"a\"}\n{\"text\": \"b\", \"tt\": 1}\n",
                with({"t"}),
                {"no \"t\"; did you mean 'tt'? It has: text, tt. The first object has: t", "a.jsonl:2"}},
        BadText{"missing_label",
                "a.jsonl",
                "{\"t\": \"a\", \"l\": 1}\n{\"t\": \"b\"}\n",
                with({"t"}, "l"),
                {"the object has no \"l\". It has: t. The first object has: t, l", "a.jsonl:2",
                 "give each object this field"}},
        BadText{"missing_label_of_all",
                "a.jsonl",
                "{\"t\": \"a\"}\n{\"t\": \"b\"}\n",
                with({"t"}, "l"),
                {"there is no column \"l\". The columns are: t", "a.jsonl:1"}},
        BadText{"missing_field_of_an_array",
                "a.json",
                "[{\"t\": \"a\"},\n{\"l\": \"b\"}]\n",
                with({"t"}),
                {"the object has no \"t\". It has: l. The first object has: t", "a.json:2"}},
        BadText{"nothing_in_an_object",
                "a.jsonl",
                "{\"t\": \"a\"}\n{}\n",
                with({"t"}),
                {"the object has no \"t\". It has: nothing. The first object has: t", "a.jsonl:2"}},
        BadText{"chat",
                "a.jsonl",
                "{\"messages\": [{\"role\": \"user\"}]}\n",
                with({"messages"}),
                {"\"messages\" is an object or array, not a string", "chat templates are not applied"}},
        BadText{"chat_without_texts",
                "a.jsonl",
                "{\"messages\": [{\"role\": \"user\"}]}\n",
                with({"text"}),
                {"there is no column \"text\"", "chat templates are not applied"}},
        BadText{
            "number_as_text", "a.jsonl", "{\"t\": 3}\n", with({"t"}), {"\"t\" is a number, not a string", "a.jsonl:1"}},
        BadText{"null_text", "a.jsonl", "{\"t\": null}\n", with({"t"}), {"\"t\" is empty", "a.jsonl:1, field \"t\""}},
        BadText{"null_label", "a.jsonl", "{\"t\": \"a\", \"l\": null}\n", with({"t"}, "l"), {"\"l\" is null"}},
        BadText{"object_label", "a.jsonl", "{\"t\": \"a\", \"l\": {}}\n", with({"t"}, "l"), {"\"l\" is an object"}},
        BadText{"escaped_nul", "a.jsonl", "{\"t\": \"a\\u0000\"}\n", with({"t"}), {"byte 2 of the text \"t\" is NUL"}},
        BadText{"invalid_utf8", "a.jsonl", "{\"t\": \"a\xc3\"}\n", with({"t"}), {"byte 9 of the line", "a.jsonl:1:9"}},
        BadText{"lone_surrogate", "a.jsonl", "{\"t\": \"\\ud800\"}\n", with({"t"}), {"not valid JSON", "a.jsonl:1"}},
        BadText{"squad_no_json", "a.json", "{\n\"data\": [}", with({"context"}), {"not valid JSON", "a.json:2"}},
        BadText{"json_of_no_columns", "a.json", "{}", with({"context"}), {"no column \"context\""}},
        BadText{"squad_other_shape",
                "a.json",
                "{\"data\": [{\"paragraphs\": [{\"context\": 1, \"qas\": []}]}]}",
                with({"context"}),
                {"expected a string, but it says 1", "data[0].paragraphs[0].context"}},
        BadText{"squad_column", "a.json", "{\"data\": []}", with({"contxt"}), {"did you mean 'context'?"}},
        BadText{"squad_label", "a.json", "{\"data\": []}", with({"context"}, "id"), {"has no labels"}},
        BadText{"empty_line", "a.txt", "a\n\nb\n", with({"text"}), {"\"text\" is empty", "a.txt:2"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
