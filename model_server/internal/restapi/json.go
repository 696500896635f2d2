package restapi

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// mostDepth is how far lists and objects of a body may be nested. A tensor has at most 8 dimensions, and the reader
// calls itself for each level.
const mostDepth = 32

// bodyError is what is wrong with a body, and the offset of the value that it is wrong with.
type bodyError struct {
	at   int
	text string
}

func (e *bodyError) Error() string { return e.text }

func wrong(at int, format string, arguments ...any) error {
	return &bodyError{at, fmt.Sprintf(format, arguments...)}
}

// scanner reads JSON where it stands in memory: a body of many numbers never becomes a tree of values, which would be
// twenty times its size. It is stricter than encoding/json, which replaces what is not UTF-8 by another character: a
// string is a category, and another string would be another one.
type scanner struct {
	text []byte
	at   int
}

// peek returns the first byte of the next token, 0 at the end of the text.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// unexpected is the error that what comes next is not what is wanted.
func (s *scanner) unexpected(wanted string) error {
	s.peek()
	rest := s.text[s.at:]
	if len(rest) == 0 {
		return wrong(s.at, "is no JSON: the body ends where %s is expected", wanted)
	}
	for _, word := range []string{"nan", "inf", "-inf"} {
		if wanted == aValue && len(rest) >= len(word) && strings.EqualFold(string(rest[:len(word)]), word) {
			return wrong(s.at, "is %s, which is not read; write NaN, Infinity or -Infinity", rest[:len(word)])
		}
	}
	character, _ := utf8.DecodeRune(rest)
	return wrong(s.at, "is no JSON: byte %d is %q, where %s is expected", s.at, character, wanted)
}

const aValue = "a value"

// special reads NaN, Infinity or -Infinity, which JSON does not have, and TensorFlow Serving does. "": it is none.
func (s *scanner) special() (word string, value float64) {
	if c := s.peek(); c != 'N' && c != 'I' && !(c == '-' && s.at+1 < len(s.text) && s.text[s.at+1] == 'I') {
		return "", 0
	}
	for word, value := range specials {
		if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
			s.at += len(word)
			return word, value
		}
	}
	return "", 0
}

var specials = map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}

// list calls each at every element of a list, which it must read.
func (s *scanner) list(each func(index int) error) error {
	s.at++
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for index := 0; ; index++ {
		if err := each(index); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.unexpected("`,` or `]`")
		}
	}
}

// object calls each at the value of every key of an object, which it must read. The key is its own only until then.
func (s *scanner) object(each func(key []byte) error) error {
	s.at++
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.unexpected("a key")
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.unexpected("`:`")
		}
		s.at++
		s.peek()
		if err := each(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.unexpected("`,` or `}`")
		}
	}
}

// skip reads a value of any kind, so that all of it is known to be JSON, but for its special numbers.
func (s *scanner) skip(depth int) error {
	c := s.peek()
	if (c == '[' || c == '{') && depth == mostDepth {
		return wrong(s.at, "is nested deeper than %d levels", mostDepth)
	}
	var err error
	switch c {
	case '[':
		err = s.list(func(int) error { return s.skip(depth + 1) })
	case '{':
		err = s.object(func([]byte) error { return s.skip(depth + 1) })
	case '"':
		_, err = s.str()
	case 't', 'f', 'n':
		_, err = s.word()
	default:
		if word, _ := s.special(); word == "" {
			_, _, err = s.number()
		}
	}
	return err
}

// word reads true, false or null.
func (s *scanner) word() (string, error) {
	s.peek()
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
			s.at += len(word)
			return word, nil
		}
	}
	return "", s.unexpected(aValue)
}

// number reads a number, and says whether it is written as a whole one.
func (s *scanner) number() (literal []byte, whole bool, err error) {
	s.peek()
	next := scanner{s.text, s.at}
	if next.here('-') {
		next.at++
	}
	if next.here('0') {
		next.at++
	} else if !next.digits() {
		return nil, false, s.unexpected(aValue)
	}
	whole = true
	if next.here('.') {
		whole = false
		next.at++
		if !next.digits() {
			return nil, false, next.unexpected("a digit")
		}
	}
	if next.here('e') || next.here('E') {
		whole = false
		next.at++
		if next.here('+') || next.here('-') {
			next.at++
		}
		if !next.digits() {
			return nil, false, next.unexpected("a digit")
		}
	}
	literal = s.text[s.at:next.at]
	s.at = next.at
	return literal, whole, nil
}

// here says whether the very next byte is c.
func (s *scanner) here(c byte) bool { return s.at < len(s.text) && s.text[s.at] == c }

// digits reads one or more.
func (s *scanner) digits() bool {
	first := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > first
}

// str reads a string: its bytes are those of the text where nothing in it is escaped.
func (s *scanner) str() ([]byte, error) {
	start := s.at
	s.at++
	first := s.at
	var decoded []byte
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			part := s.text[first:s.at]
			if !utf8.Valid(part) {
				return nil, wrong(start, "is a string that is not UTF-8; bytes are sent as {\"b64\": \"…\"}")
			}
			s.at++
			if decoded == nil {
				return part, nil
			}
			return append(decoded, part...), nil
		case c < 0x20:
			return nil, wrong(start, "is a string with an unescaped control character, byte %d", s.at)
		case c == '\\':
			part := s.text[first:s.at]
			if !utf8.Valid(part) {
				return nil, wrong(start, "is a string that is not UTF-8; bytes are sent as {\"b64\": \"…\"}")
			}
			character, ok := s.escape()
			if !ok {
				return nil, wrong(start, "is a string with a wrong escape at byte %d", s.at)
			}
			decoded = utf8.AppendRune(append(decoded, part...), character)
			first = s.at
		default:
			s.at++
		}
	}
	return nil, wrong(start, "is a string that does not end")
}

// escape reads what follows a backslash and it.
func (s *scanner) escape() (rune, bool) {
	rest := s.text[s.at+1:]
	if len(rest) == 0 {
		return 0, false
	}
	if rest[0] != 'u' {
		of := bytes.IndexByte([]byte(`"\/bfnrt`), rest[0])
		if of < 0 {
			return 0, false
		}
		s.at += 2
		return rune("\"\\/\b\f\n\r\t"[of]), true
	}
	character, ok := unit(rest)
	if !ok {
		return 0, false
	}
	s.at += 6
	if !utf16.IsSurrogate(character) {
		return character, true
	}
	// Half of a character has no UTF-8.
	if !s.here('\\') {
		return 0, false
	}
	second, ok := unit(s.text[s.at+1:])
	if character = utf16.DecodeRune(character, second); !ok || character == utf8.RuneError {
		return 0, false
	}
	s.at += 6
	return character, true
}

// unit reads the four digits of uXXXX.
func unit(text []byte) (rune, bool) {
	if len(text) < 5 || text[0] != 'u' {
		return 0, false
	}
	for _, c := range text[1:5] {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0, false
		}
	}
	value, err := strconv.ParseUint(string(text[1:5]), 16, 16)
	return rune(value), err == nil
}
