#include "lockstep/safetensors/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::string_literals;

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string file(8, '\0');
  for (unsigned i = 0; i < 8; ++i) file[i] = static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xff);
  return file + header + data;
}

std::string reason_to_refuse(const std::string& bytes) {
  try {
    parse_safetensors_header(bytes, bytes.size(), "file");
    return "";
  } catch (const Error& error) {
    return error.happened();
  }
}

struct BadFile {
  const char* name;
  std::string bytes;
  const char* reason;  // a part of the message
  friend std::ostream& operator<<(std::ostream& out, const BadFile& c) { return out << c.name; }
};

class RefusedFiles : public ::testing::TestWithParam<BadFile> {};

TEST_P(RefusedFiles, SayWhy) {
  const std::string reason = reason_to_refuse(GetParam().bytes);
  EXPECT_NE(reason.find(GetParam().reason), std::string::npos) << "said: " << reason;
}

std::string tensor_header(const std::string& fields) { return "{\"w\":{" + fields + "}}"; }

std::vector<BadFile> bad_files() {
  const std::string f32_2 = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::string bytes8(8, 'x');
  std::string many = "{";
  for (int i = 0; i < 3; ++i) many += (i ? "," : "") + ("\"w" + std::to_string(i)) + "\":{" + f32_2 + "}";
  return {
      {"nothing", "", "too few"},
      {"seven_bytes", std::string(7, '\0'), "too few"},
      {"no_header", with_length(""), "not a JSON object"},
      {"only_spaces", with_length("   "), "not a JSON object"},
      {"longer_than_the_file", "\x09\0\0\0\0\0\0\0{}"s, "claims 9 bytes"},
      {"over_a_hundred_megabytes", "\x01\xe1\xf5\x05\0\0\0\0{}"s, "claims 100000001 bytes"},
      {"length_of_2_to_the_64", std::string(8, '\xff') + "{}", "claims 18446744073709551615"},
      {"byte_order_mark", with_length("\xef\xbb\xbf{}"), "not a JSON object"},
      {"array", with_length("[]"), "not a JSON object"},
      {"text_after_it", with_length("{}{}"), "not JSON at byte"},
      {"hidden_by_a_zero", with_length("{}\0junk"s), "zero byte"},
      {"not_utf8", with_length("{\"\xff\":1}"), "not JSON at byte"},
      {"comment", with_length("{/**/}"), "not JSON at byte"},
      {"tensor_is_a_number", with_length("{\"w\":1}"), "where a tensor"},
      {"tensor_is_an_array", with_length("{\"w\":[1]}"), "where a tensor"},
      {"dtype_missing", with_length(tensor_header(R"("shape":[2],"data_offsets":[0,8])"), bytes8), "dtype is missing"},
      {"shape_missing", with_length(tensor_header(R"("dtype":"F32","data_offsets":[0,8])"), bytes8),
       "shape is missing"},
      {"offsets_missing", with_length(tensor_header(R"("dtype":"F32","shape":[2])"), bytes8),
       "data_offsets is missing"},
      {"dtype_unknown", with_length(tensor_header(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), bytes8), "F33"},
      {"dtype_twice", with_length(tensor_header(R"("dtype":"F32",)" + f32_2), bytes8), "\"dtype\" is given twice"},
      {"negative_dimension", with_length(tensor_header(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), bytes8),
       "negative"},
      {"fractional_dimension",
       with_length(tensor_header(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), bytes8), "not whole"},
      {"nested_dimension", with_length(tensor_header(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), bytes8),
       "there is an array in shape"},
      {"dimension_over_int64",
       with_length(tensor_header(R"("dtype":"F32","shape":[0,9223372036854775808],"data_offsets":[0,0])")),
       "overflows"},
      {"product_overflows",
       with_length(tensor_header(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])")),
       "elements overflows"},
      {"bits_overflow",
       with_length(tensor_header(R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0])")), "overflows"},
      {"half_a_byte", with_length(tensor_header(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "xx"),
       "whole bytes"},
      {"one_offset", with_length(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), bytes8), "fewer"},
      {"three_offsets", with_length(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"), bytes8),
       "more than two"},
      {"backwards", with_length(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), bytes8), "hole"},
      {"hole_before", with_length(tensor_header(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), bytes8 + "xxxx"),
       "hole"},
      {"out_of_range", with_length(tensor_header(f32_2), "xxxx"), "truncated"},
      {"bytes_left_over", with_length(tensor_header(f32_2), bytes8 + "x"), "appended to"},
      {"same_bytes_for_three", with_length(many + "}", bytes8), "overlap"},
      {"same_name_twice",
       with_length(
           R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
       "\"w\" is given twice"},
      {"metadata_twice", with_length(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ is given twice"},
      {"metadata_not_strings", with_length(R"({"__metadata__":{"a":1}})"), "not a string"},
      {"metadata_nested", with_length(R"({"__metadata__":{"a":{}}})"), "not a string"},
      {"metadata_is_a_list", with_length(R"({"__metadata__":["a"]})"), "there is an array where"},
      {"deep_brackets", with_length("{\"w\":{\"extra\":" + std::string(50'000'000, '[')), "too deeply"},
  };
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedFiles, ::testing::ValuesIn(bad_files()),
                         [](const auto& test) { return test.param.name; });

TEST(SafetensorsHeader, AcceptsWhatTheReferenceReaderAccepts) {
  EXPECT_EQ(reason_to_refuse(with_length("{}")), "");
  EXPECT_EQ(reason_to_refuse(with_length(" \n\t\r{} \n")), "");
  EXPECT_EQ(reason_to_refuse(with_length("{\"__metadata__\":null}")), "");
  EXPECT_EQ(reason_to_refuse(with_length(
                R"({"w":{"extra":{"a":[1,{"b":null}]},"data_offsets":[0,1],"shape":[2],"dtype":"F4"}})", "x")),
            "");
  // An empty tensor may be at any place, and names may be in another order than the data.
  const std::string two = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                          R"("e":{"dtype":"F32","shape":[3,0],"data_offsets":[1,1]},)"
                          R"("a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})";
  const std::string file = with_length(two, "xy");
  const SafetensorsHeader header = parse_safetensors_header(file, file.size(), "file");
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[1].name, "e");
  EXPECT_EQ(header.entries[2].name, "b");
  EXPECT_EQ(header.data_offset, 8 + two.size());
}

// A list of small files, each with the verdict of the reference reader.
TEST(SafetensorsFile, AgreesWithTheReferenceOnItsOwnTestFiles) {
  const std::string folder = LOCKSTEP_SHARED_DATA "/safetensors/";
  std::ifstream manifest(folder + "manifest.jsonl");
  if (!manifest)
    GTEST_SKIP() << "no " << folder << "manifest.jsonl: the reference's test files are not on this machine";
  int accepted = 0, refused = 0;
  for (std::string line; std::getline(manifest, line);) {
    const auto item = nlohmann::json::parse(line);
    const std::string path = folder + item["file"].get<std::string>();
    if (item["expected"] == "ok") {
      EXPECT_NO_THROW(SafetensorsFile{path}) << path;
      ++accepted;
    } else {
      EXPECT_THROW(SafetensorsFile{path}, Error) << path << " " << item["expected"];
      ++refused;
    }
  }
  EXPECT_EQ(accepted, 17);
  EXPECT_EQ(refused, 10);
  const auto values = SafetensorsFile(folder + "valid/f32_1x2x3.safetensors").tensor("attn.0");
  EXPECT_TRUE(torch::equal(values, torch::arange(6, torch::kFloat).reshape({1, 2, 3})));
  const SafetensorsFile complex_file(folder + "valid/c64_2x2.safetensors");
  const auto complex = complex_file.tensor(complex_file.entries().front().name);
  EXPECT_EQ(complex[1][1].item<c10::complex<float>>(), c10::complex<float>(-1, 1));
  EXPECT_EQ(SafetensorsFile(folder + "valid/scalar_i32.safetensors").tensor("test").dim(), 0);
  EXPECT_THROW(SafetensorsFile(folder + "valid/f4_1x2.safetensors").tensor("attn.0"), Error);  // no such dtype
}

// The bytes that Hugging Face's safetensors 0.8.0 writes for these tensors.
TEST(WriteSafetensors, WritesTheBytesOfTheReferenceWriter) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  write_safetensors(path, {{"b", torch::tensor({{1.f, 3.f}, {2.f, -4.f}}).t()},  // not contiguous
                           {"a", torch::tensor({1, 2, 3}, torch::kLong)},
                           {"\xc3\xa9\"\\\n", torch::tensor(7, torch::kByte)},
                           {"h", torch::tensor({1.5}, torch::kHalf)},
                           {"k", torch::zeros({0, 3})},
                           {"m", torch::tensor({true, false})},
                           {"c", torch::tensor({c10::complex<float>(1, -2)}).conj()}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},)"
      R"("c":{"dtype":"C64","shape":[1],"data_offsets":[24,32]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[32,48]},)"
      R"("k":{"dtype":"F32","shape":[0,3],"data_offsets":[48,48]},"h":{"dtype":"F16","shape":[1],"data_offsets":[48,50]},)"
      "\"\xc3\xa9\\\"\\\\\\n\""
      R"(:{"dtype":"U8","shape":[],"data_offsets":[50,51]},"m":{"dtype":"BOOL","shape":[2],"data_offsets":[51,53]}}      )";
  const std::string data =
      "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"s
      "\0\0\x80?\0\0\0@\0\0\x80?\0\0\0@\0\0@@\0\0\x80\xc0\0>\7\1\0"s;
  EXPECT_EQ(read_file(path), with_length(header, data));
}

TEST(WriteSafetensors, EveryDtypeComesBackEqual) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  NamedTensors tensors;
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kDouble, torch::kLong, torch::kInt,
                           torch::kShort, torch::kChar, torch::kByte, torch::kBool, torch::kComplexFloat}) {
    tensors.emplace_back(c10::toString(dtype), torch::arange(7).to(dtype).reshape({7, 1}));
    tensors.emplace_back(c10::toString(dtype) + "/scalar"s, torch::ones({}, dtype));
    tensors.emplace_back(c10::toString(dtype) + "/empty"s, torch::zeros({2, 0, 3}, dtype));
  }
  write_safetensors(path, tensors, {{"format", "pt"}, {"step", "41"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.entries().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("step"), "41");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.tensor(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(file.tensor(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(torch::equal(file.tensor(name), tensor)) << name;
  }
}

TEST(WriteSafetensors, RefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  const torch::Tensor one = torch::ones({1});
  EXPECT_THROW(write_safetensors(path, {{"a", one}, {"a", one}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"__metadata__", one}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", torch::Tensor()}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", torch::ones({2}).to_sparse()}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", torch::ones({2}, torch::kComplexDouble)}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"\xff", one}}), Error);
  EXPECT_THROW(write_safetensors(path, {{"a", one}}, {{"k", "\xff"}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsFile, TensorsOutliveItAndChangeOnlyThemselves) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  write_safetensors(path, {{"w", torch::arange(4, torch::kFloat)}});
  torch::Tensor a, b;
  {
    const SafetensorsFile file(path);
    const SafetensorsFile copy = file;
    a = copy.tensor("w");
    b = file.tensor("w");
  }
  EXPECT_EQ(a.data_ptr(), b.data_ptr()) << "not read in place";
  a.add_(1);
  EXPECT_TRUE(torch::equal(a, torch::tensor({1.f, 2.f, 3.f, 4.f})));
  EXPECT_TRUE(torch::equal(SafetensorsFile(path).tensor("w"), torch::arange(4, torch::kFloat)));
}

TEST(SafetensorsFile, ThatIsCutWhileItIsInUseIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  const at::Tensor small = torch::arange(1000, torch::kFloat);
  write_safetensors(path, {{"w", small}});
  const SafetensorsFile read(path);
  std::filesystem::resize_file(path, 0);
  EXPECT_TRUE(read.tensor("w").equal(small)) << "it was read whole";

  write_safetensors(path, {{"w", torch::zeros({5 << 20}, torch::kFloat)}});
  const SafetensorsFile mapped(path);
  EXPECT_EQ(mapped.tensor("w").sum().item<float>(), 0);
  const auto bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes / 2);
  try {
    mapped.tensor("w");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find(std::to_string(bytes) + " to " + std::to_string(bytes / 2)), std::string::npos)
        << error.what();
    EXPECT_EQ(error.where(), path);
  }
}

TEST(SafetensorsFile, CopiesWhatIsNotAligned) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  const std::string header = R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  for (int pad = 0; pad < 8; ++pad) {
    write_file_atomically(
        path, with_length(header + std::string(static_cast<std::size_t>(pad), ' '), "\0\0\0\0\0\0\xf8\x3f"s));
    const torch::Tensor tensor = SafetensorsFile(path).tensor("w");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 8, 0u);
    EXPECT_EQ(tensor.item<double>(), 1.5);
  }
}

TEST(SafetensorsFile, TakesAnyByteForTrue) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  write_file_atomically(path, with_length(R"({"w":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", "\0\1\2"s));
  EXPECT_TRUE(torch::equal(SafetensorsFile(path).tensor("w").to(torch::kInt), torch::tensor({0, 1, 1}, torch::kInt)));
}

TEST(SafetensorsFile, RefusesEmptyTensorsWhoseDimensionsOverflow) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  const std::string shape = "[0,4611686018427387904,4611686018427387904]";
  write_file_atomically(path, with_length(R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,0]}})"));
  EXPECT_THROW(SafetensorsFile(path).tensor("w"), Error);
}

TEST(SafetensorsFile, NamesWhatIsNotThere) {
  const TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
  EXPECT_THROW(SafetensorsFile{path}, Error);
  EXPECT_THROW(SafetensorsFile{folder.path()}, Error);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile{path}, Error) << "a pipe must not be waited for";
  ::unlink(path.c_str());
  write_safetensors(path, {{"w", torch::ones({1})}});
  try {
    SafetensorsFile(path).tensor("v");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("\"v\""), std::string::npos);
    EXPECT_EQ(error.where(), path);
  }
}

}  // namespace
}  // namespace lockstep
