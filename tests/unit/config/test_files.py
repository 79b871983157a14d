"""Config files as text: JSON or plain YAML, each mistake with file and place."""

import json
import re

import pytest
import yaml
from helpers import ROOT, TINY
from hypothesis import given
from hypothesis import strategies as st

from rlvr.config.files import PLAIN_NUMBER, check_config_file
from rlvr.errors import UserError


def refusal(tmp_path, text, name="config.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        check_config_file(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def accepted(tmp_path, text, name="config.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    check_config_file(path)


@pytest.mark.parametrize("path", [ROOT / "config.yaml", ROOT / "extended.yaml", TINY])
def test_ours_are_plain(path):
    check_config_file(path)


def test_yaml_that_does_not_parse_is_located(tmp_path):
    message = refusal(tmp_path, "seeds: [1, 2\ngrpo: {}\n")
    assert re.search(r"is neither JSON nor plain YAML: .*(.|\n)*line 2", message)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("sft: {steps: 31}\nseeds: [1]\nsft: {batch_size: 32}\n", "line 3"),
        ('{"sft": {"steps": 31, "steps": 32}}', ""),
    ],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path, text, line):
    message = refusal(tmp_path, text)
    assert re.search(r"the key (sft|steps) is there twice", message)
    assert line in message


def test_merge_keys_are_no_duplicates(tmp_path):
    accepted(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")


@pytest.mark.parametrize(
    ("number", "taken_for"),
    [("042", "34"), ("-017", "-15"), ("1:40", "100"), ("1:30.0", "90.0"), ("0x10", "16"),
     ("0b11", "3"), ("190:20:30", "685230"), ("042.5", "42.5"), ("0_1", "1")],
)  # fmt: skip
def test_numbers_that_yaml_takes_for_others_are_refused(tmp_path, number, taken_for):
    message = refusal(tmp_path, f"device: cpu\nseeds: [1, {number}]\n")
    assert f"YAML takes {number} for {taken_for}." in message
    assert "line 2, column 12" in message
    assert f"takes {number} for" in refusal(tmp_path, f"studies: {{a: {{betas: [{number}]}}}}")


@pytest.mark.parametrize(
    "number",
    ["0", "-1", "+7", "10", "1_000", "0.5", "-0.04", "1.0e-3", "2.5E+4", "5.", ".5", ".inf"],
)
def test_plain_numbers_are_themselves(tmp_path, number):
    accepted(tmp_path, f"x: [{number}]")
    assert float(yaml.safe_load(number)) == float(number.replace(".inf", "inf"))


@given(st.from_regex(r"[-+]?[0-9_:.xob]{1,8}(e[-+][0-9])?", fullmatch=True))
def test_a_number_that_is_let_pass_is_what_python_makes_of_it(text):
    try:
        value = yaml.safe_load(f"x: {text}")["x"]
    except yaml.YAMLError:
        return
    if isinstance(value, int | float) and PLAIN_NUMBER.fullmatch(text):
        assert value == float(text.replace("_", ""))


def test_json_is_fine_however_it_is_indented(tmp_path):
    text = json.dumps({"seeds": [42], "sft": {"steps": 3}}, indent="\t")
    accepted(tmp_path, text, "mine.json")
    accepted(tmp_path, text)


@pytest.mark.parametrize("text", ["", "# nothing but a remark\n", "- a list\n", "[1]", "null"])
def test_a_file_without_settings_is_named(tmp_path, text):
    assert "holds no settings" in refusal(tmp_path, text)


@pytest.mark.parametrize("value", ["!!int '1 2'", "!!int ''", "!!bool 'x'", "!!timestamp 'x'"])
def test_tags_that_do_not_fit_are_refused(tmp_path, value):
    assert "neither JSON nor plain YAML" in refusal(tmp_path, f"x: {value}")


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"seeds: [1] # \xff\n")
    with pytest.raises(UserError, match="neither JSON nor plain YAML"):
        check_config_file(path)
