// Package jsonscan finds the parts of JSON texts that strangers sent, and puts others in their place, without decoding anything. What
// passes through bobbin is read with it once, and goes on as the bytes that came.
//
// [Message] and [Valid] check a text whole, by the rules of RFC 8259 and no others: anybody may have written it. [Pick], [Find] and
// [Members] look into a text that was checked, and pass over what they are not asked for; given another text they find nonsense or
// fail, and never panic. Nothing here allocates but where it says so, keeps what it is given, or needs a lock.
package jsonscan
