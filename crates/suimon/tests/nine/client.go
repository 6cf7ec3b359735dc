// A program that downloads: for the tests of `suimon nine`. Run as `client ADDRESS:PORT NAME`.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	c, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(c, "GET /%s HTTP/1.0\r\n\r\n", os.Args[2])
	io.Copy(io.Discard, c)
}
